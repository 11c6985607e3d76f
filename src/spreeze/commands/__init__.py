"""The commands of `spreeze`, one file each:

    USAGE                    what follows the command's name
    HELP                     one line
    add_arguments(parser)    its flags
    run(arguments) -> int    one call, and the exit code
    PASSES_ON = True         where flags that it does not know belong to what it calls

cli.py finds them by name. Importing one loads nothing heavy: what a command needs it imports when it runs.
"""
