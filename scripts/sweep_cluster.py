"""Runs on Dask: worker processes of this machine, or an existing cluster.

Each worker has one run at a time, which takes all of its threads, and nothing is tried twice: where
a worker dies, its run has failed and the others go on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sphere_attention_scripts.case_file import CaseError
from sphere_attention_scripts.sweep_worker import DIED, Job, Outcome, execute

POLL = 0.5
"""Seconds between two looks for new workers."""

CONNECT_SECONDS = 15.0
PATIENCE = 120.0
"""Seconds without any worker after which the runs that are left are given up."""

THREAD_VARIABLES = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)
"""Set before a local worker starts: they are read when numba and numpy are imported."""


@dataclass(frozen=True)
class Place:
    """Where a sweep runs.

    scheduler : address of an existing cluster; None: worker processes of this machine
    workers, threads : processes, and threads of each; None: so that their product is the number
        of cores; on a cluster, whose workers are as they are, threads of the kernels
    """

    scheduler: str | None = None
    workers: int | None = None
    threads: int | None = None

    def on_this_machine(self, runs: int, cores: int) -> Place:
        """Workers and threads settled for so many runs."""
        workers = self.workers or max(1, cores // (self.threads or 1))
        workers = min(workers, runs)
        return Place(None, workers, self.threads or max(1, cores // workers))


def require_dask() -> None:
    """Raise CaseError where Dask is missing."""
    if importlib.util.find_spec("dask") is None or importlib.util.find_spec("distributed") is None:
        raise CaseError(
            "a sweep needs the packages dask and distributed: "
            'python -m pip install "sphere-attention[sweep]"'
        )


def cores() -> int:
    """The cores that this process may use."""
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


def carry_out(jobs: Sequence[Job], place: Place, report: Callable[[Outcome], None]) -> None:
    """Run all jobs; `report` is told of each as it ends.

    Raises CaseError where no cluster answers. After a KeyboardInterrupt the local workers are
    stopped, and those of a cluster finish what they are at.
    """
    waiting, busy = deque(jobs), dict[Any, tuple[Job, str]]()
    with _client(place) as client:
        last_seen = time.monotonic()
        while waiting or busy:
            workers = list(client.nthreads())
            if workers or busy:
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > PATIENCE:
                break
            occupied = {address for _, address in busy.values()}
            for address in workers:
                if waiting and address not in occupied:
                    job = waiting.popleft()
                    busy[_submitted(client, job, address)] = job, address
            for future in _ended(list(busy)):
                job, _ = busy.pop(future)
                report(_outcome(future, job))
    for job in waiting:
        report(Outcome(job.name, False, f"not run: no worker for {PATIENCE:g} seconds"))


def _submitted(client: Any, job: Job, address: str) -> Any:
    """The job's future, on that worker if it still lives."""
    return client.submit(
        execute,
        job,
        key=f"{job.name}-{job.attempt}",
        workers=[address],
        allow_other_workers=True,
        retries=0,
        pure=False,
    )


def _ended(futures: Sequence[Any]) -> list[Any]:
    """Those that have ended, after a while at the most."""
    from distributed import wait

    if not futures:
        time.sleep(POLL)
        return []
    with contextlib.suppress(TimeoutError):
        wait(futures, timeout=POLL, return_when="FIRST_COMPLETED")
    return [future for future in futures if future.done()]


def _outcome(future: Any, job: Job) -> Outcome:
    """How the job ended, also where its worker could not say so."""
    from distributed import KilledWorker

    try:
        outcome: Outcome = future.result()
    except KilledWorker:
        return Outcome(job.name, False, DIED)
    except Exception as failed:  # the worker lacks this code, the connection broke, ...
        return Outcome(job.name, False, f"{type(failed).__name__}: {failed}")
    return outcome


@contextlib.contextmanager
def _client(place: Place) -> Iterator[Any]:
    """A client of the existing cluster, or of one that lasts as long as the sweep."""
    from distributed import Client, LocalCluster

    if place.scheduler is not None:
        with _connected(place.scheduler) as client:
            yield client
        return
    with (
        _settings(place.threads or 1),
        LocalCluster(
            n_workers=place.workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # none is needed: no fixed port is taken
            memory_limit=0,  # a run holds what it holds: the operating system has the last word
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        try:
            yield client
        except KeyboardInterrupt:
            print("\nstopping the workers ...", file=sys.stderr, flush=True)
            raise


def _connected(address: str) -> Any:
    """A client of the cluster at `address`; CaseError where there is none, or none with workers."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TimeoutError) as failed:
        raise CaseError(f"--scheduler {address}: no Dask scheduler answers there") from failed
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as failed:
        client.close()
        raise CaseError(f"--scheduler {address}: this cluster has no workers") from failed
    return client


def _settings(threads: int) -> Any:
    """Dask's settings for a local sweep, for a `with` statement."""
    import dask

    environment = dask.config.get("distributed.nanny.pre-spawn-environ")
    return dask.config.set(
        {
            "distributed.worker.multiprocessing-method": "spawn",
            "distributed.nanny.pre-spawn-environ": {
                **environment,
                **{name: str(threads) for name in THREAD_VARIABLES},
            },
            "distributed.worker.preload": ["sphere_attention_scripts.sweep_worker"],
            "distributed.scheduler.allowed-failures": 0,
            # A kernel may hold a worker for long: only a closed connection means that it is dead.
            "distributed.scheduler.worker-ttl": None,
        }
    )
