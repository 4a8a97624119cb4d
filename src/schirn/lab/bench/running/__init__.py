"""From a request to results on disk.

Read in this order: `run` (the public function), `plan` (a request becomes a list of runs; `data`
and `methods` resolve its names), `engine` (the loop), `folder` (what is finished,
and what is written), `workers` (where a run is executed), `execute` (one run) and `scores`
(the arrays that are kept and the metrics computed from them).
"""
