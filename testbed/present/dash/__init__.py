"""The live page: a cluster in the browser, while it runs and afterwards.

view.py       what the page is told of a run, made from snapshots or from a summary
board.py      what is known of all runs of one command, and who is told of changes
finished.py   the same from a run folder
app.py        the page's addresses; guard.py refuses what must not reach them
serving.py    where it is served
process.py    a process that serves what it is told over its standard input, for commands that are busy otherwise
reporter.py   a Display that starts such a process and tells it
page/         what the browser gets
"""
