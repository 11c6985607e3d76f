"""The dashboard: a page in the browser over all runs of a folder. It reads what runs write and asks through files; a
run neither knows of it nor waits for it, and while nobody looks at the page it reads nothing.

folder      which runs lie there, and the only way to open a file of theirs
thinning    hours of lines in at most a thousand points, that grow by increments
history     a run's .jsonl files as they grow
run         everything that the page shows of one run
guard       who may read, who may act: host names, origins, the token
app         the addresses that the server answers
server      the socket, the link with its token, the end
page/       what the browser gets: HTML, CSS and JavaScript, as they lie there
"""
