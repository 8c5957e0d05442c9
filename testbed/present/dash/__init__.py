"""The live page: a cluster in the browser, during a run and afterwards.

view.py          what the page shows of a run, made from snapshots or from a summary
board.py         the state of all runs of one command, and the pages that wait for updates
finished.py      the same from a run folder
long_running.py  the page of a long-running cluster
app.py           the page's addresses; guard.py refuses requests that must not reach them
serving.py       where the page is served
process.py       a process that serves the page of a command, fed over its standard input
reporter.py      a Display that starts such a process and feeds it
page/            the files that the browser loads
"""
