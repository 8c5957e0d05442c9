"""The conformance suite of dispatching policies.

    from testbed.testing import check_policy

    def test_my_policy_keeps_the_rules():
        check_policy(MyPolicy)

``check_policy`` runs a policy in many small random systems on the virtual runtime and checks the rules that every
policy must keep, whatever it decides:

* it places every task of every job, each once, on a server that exists;
* it sends at most the probes that ``probes_for_tasks`` claims;
* for the same seed it makes the same decisions;
* it places a job by the replies to this job's own probes, unless it says that it ``remembers``;
* it uses nothing but its view of the dispatcher (``dispatchers.view``): neither types nor sizes, and no other agent;
* of a job that is dropped no task is served;
* if it makes copies of jobs: it places at most as many as ``copies`` claims, one of them completes its job, and all
  come to an end: no server keeps one after the cancellation at the job's completion;
* it does so with one server, with jobs of several tasks, with several dispatchers, with full buffers, when messages
  are slow, when a server dies, and, if it has a ``timeout`` parameter, when every reply is late and when none comes.

Needs hypothesis (the extra ``test`` of this distribution).
"""

from testbed.testing.checks import check_policy

__all__ = ["check_policy"]
