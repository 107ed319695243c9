"""Answering a file of questions on a Ray cluster, by Ray Data."""

import logging
import pickle
import platform
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.exceptions import RayError

from wenzhen.answering.chunks import Answered, Job, answer_chunk
from wenzhen.answering.cluster import connected, gpu_share, reason
from wenzhen.answering.question_files import Chunk, Place, QuestionFile
from wenzhen.errors import RunError, UsageError
from wenzhen.models.digest import model_digest


def answer_on_cluster(
    job: Job, source: QuestionFile, start: Place, address: str, processes: int | None = None
) -> Iterator[Answered]:
    """Answer the questions of a file behind a place on a Ray cluster; yield chunks in order.

    This machine reads the questions and gets the answers. Every machine of the cluster needs the package, and the
    model at the same path. What a machine was at that is lost is done again by another.

    Args:
        job: what to answer with.
        source: the questions.
        start: the place.
        address: of the cluster; see [`connected`].
        processes: that answer at a time; None for one for each GPU of the cluster or, without, for each core.

    Raises:
        UsageError: there is no cluster, or the model cannot be loaded on one of its machines.
        RunError: the model fails, or the cluster does.
    """
    # Processes of the cluster begin in other folders.
    job = replace(job, folder=job.folder.resolve())
    source = replace(source, path=source.path and source.path.resolve())
    with connected(address):
        quiet = DataContext.get_current()
        quiet.enable_progress_bars = False
        quiet.execution_options.preserve_order = True
        # Of any size: what is read becomes a block for each chunk.
        quiet.target_max_block_size = 1
        # What fails is raised too, and said in a line.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        # It would say of a short file that fewer would do.
        warnings.filterwarnings("ignore", module=r"ray\.data")
        has = ray.cluster_resources()
        count = processes or int(has.get("GPU", 0) or has["CPU"])
        answers = chunks_on_cluster(job, source, start).map(
            Answering,
            fn_constructor_args=(job, model_digest(job.folder)),
            compute=ActorPoolStrategy(size=count),
            num_cpus=1,
            num_gpus=gpu_share(count),
        )
        try:
            for row in answers.iter_rows():
                result = pickle.loads(row["result"])
                if isinstance(result, Exception):
                    raise result
                yield result
        except RayError as error:
            raise RunError(f"the cluster failed: {reason(error)}") from error


def chunks_on_cluster(job: Job, source: QuestionFile, start: Place) -> Dataset:
    """Return the chunks of a file as rows with a pickled `chunk`, read as they are needed on this machine."""
    return ray.data.read_datasource(
        _Chunks(job, source, start),
        override_num_blocks=1,
        # Reading takes no core from those who answer.
        num_cpus=0,
        label_selector={"ray.io/node-id": ray.get_runtime_context().get_node_id()},
    )


class _Chunks(Datasource):
    """The chunks of a file behind a place, read by one task."""

    def __init__(self, job: Job, source: QuestionFile, start: Place) -> None:
        super().__init__()
        self.job, self.source, self.start = job, source, start

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        job, source, start = self.job, self.source, self.start

        def read() -> Iterator[pa.Table]:
            for chunk in source.chunks(job.chunk_size, start):
                yield pa.table({"chunk": [pickle.dumps(chunk)]})

        return [ReadTask(read, BlockMetadata(None, None, None, None))]


class Answering:
    """An actor with the model of a job; what goes wrong is told as a result, since Ray would try it again.

    Args:
        job: what to answer with.
        digest: of the model on the machine that asks.
    """

    def __init__(self, job: Job, digest: str) -> None:
        self.job = job
        self.error: Exception | None = None
        try:
            self.answerer = job.start()
            if not digest.startswith(self.answerer.revision):
                raise UsageError(f"{job.folder} on {platform.node()} holds another model than where it is asked")
        except UsageError as error:
            self.error = error

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"result": pickle.dumps(self.error or self.answer(pickle.loads(row["chunk"])))}

    def answer(self, chunk: Chunk) -> Answered | Exception:
        """Answer a chunk."""
        try:
            return answer_chunk(self.answerer, self.job, chunk)
        except (UsageError, RunError) as error:
            return error
