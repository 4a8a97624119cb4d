"""From a request to results on disk.

Read in this order: `run` (the public function), `plan` (a request becomes a list of runs; `data`
and `methods` resolve its names), `engine` (the loop), `folder` and `claims` (who works on what,
and what is finished), `workers` (where a run is executed), `execute` (one run) and `scores`
(the arrays that are kept and the metrics computed from them).
"""
