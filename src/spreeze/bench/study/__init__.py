"""What `spreeze bench ablation` and `spreeze bench compare` have in common: whole runs of programs, one after another,
all judged alike, kept in a folder that an interrupted bench goes on with."""
