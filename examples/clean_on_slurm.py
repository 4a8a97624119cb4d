"""Clean a table on SLURM: dask-jobqueue submits the workers as jobs.

The arguments are those of `schirn clean`: `python examples/clean_on_slurm.py /shared/photos
--features embedding -o /shared/cleaned`. The scheduler runs in this script, so start it on a login
node or in a job of its own. It needs `pip install dask-jobqueue`.
"""

import subprocess
import sys

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

if __name__ == "__main__":
    with SLURMCluster(
        queue="batch",  # your partition
        cores=1,  # one task at a time,
        job_cpu=8,  # which computes with eight cores
        memory="32GB",
        walltime="02:00:00",
        job_script_prologue=["export OMP_NUM_THREADS=8"],
    ) as cluster:
        cluster.scale(jobs=4)
        with Client(cluster) as client:
            client.wait_for_workers(1)  # the others join when their jobs start
        command = [sys.executable, "-m", "schirn", "clean", *sys.argv[1:]]
        sys.exit(subprocess.call([*command, "--scheduler", cluster.scheduler_address]))
