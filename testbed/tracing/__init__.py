"""What happened to single jobs: a sample of them is traced, every message of theirs recorded by both runtimes.

``choice`` says which jobs, ``recorder`` is what a runtime writes to, ``history`` puts together what happened to one
job, and ``diagram`` draws it.
"""
