"""A filter: the stage of a chain that keeps the documents which meet a condition. The database evaluates it, in the
transaction that hands the documents on, so no worker and no model is needed.

Runs inside the caller's transaction, which has locked the counters of the filtering job.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Subquery, and_, insert, literal, select, table, update
from sqlalchemy import column as sql_column
from sqlalchemy.exc import DataError

from jobs.errors import SpecError
from jobs.providers import NO_PROVIDER
from jobs.stage import FILTER, FilterSpec
from jobs.store.schema.clock import db_time
from jobs.store.schema.result_tables import Pass
from jobs.store.schema.results import in_range, open_positions
from jobs.store.schema.states import DocumentStatus
from jobs.store.schema.tables import Document, Job
from jobs.store.where.condition import Condition
from jobs.store.where.tree import names_in
from jobs.store.where.values import VIEW, is_column
from jobs.tasks.kinds import KINDS

NOT_KEPT = "filtered"  # error code of a document that does not meet the condition
NOT_EVALUATED = "filter-error"  # error code where the database cannot evaluate it, as for a number that is too large

# The columns of `v_documents` that a condition may use: the stage that it takes them from decides.
OF_CORPUS = frozenset({"position", "id", "line", "text", "fields", "route"})
OF_TASK = {kind.name: kind.conditions for kind in KINDS.values() if kind.fields}
OF_RESULTS = frozenset({"provider", "shard_id", "epoch", "worker_id", "finished_at"})  # last stage with a model


def stage_of_column(name: str, tasks: Sequence[str]) -> int | None:
    """The index of the stage, among stages with these tasks, that a column of `v_documents` is taken from: the last one
    that has it. None where none has it."""
    if name in OF_CORPUS:
        return 0
    having = [
        index
        for index, task in enumerate(tasks)
        if name in OF_TASK.get(task, ()) or (name in OF_RESULTS and task != FILTER)
    ]
    return having[-1] if having else None


def check_condition(text: str, tasks: Sequence[str]) -> Condition:
    """The parsed condition of a filter behind stages with these tasks. Raises SpecError for what is no condition, and
    for a value that none of the stages computes."""
    condition = Condition.parse(text)
    for name in used_columns(condition):
        if stage_of_column(name, tasks) is None:
            computing = [f"--task {task}" for task in OF_TASK if name in OF_TASK[task]]
            source = f"; {' and '.join(computing)} computes it" if computing else ""
            raise SpecError(f"no stage before the filter has a value {name!r}{source}")
    return condition


def used_columns(condition: Condition) -> list[str]:
    """The columns of `v_documents` that a condition names."""
    return list(dict.fromkeys(name.path[0].lower() for name in names_in(condition.tree) if is_column(name)))


def keep_documents(connection: Connection, job_id: int, shard_id: int, start: int, stop: int) -> int:
    """Filter the open documents of a range: one that meets the condition gets a result, any other is skipped; how many
    were kept."""
    options = FilterSpec.restore(connection.execute(select(Job.options).where(Job.id == job_id)).scalar_one())
    parsed = Condition.parse(options.condition)
    condition = Condition(parsed.tree, {tuple(name.split(".")): (name,) for name in options.dotted})
    view = _view(connection, condition, job_id, start, stop)
    clause = condition.clause(connection.dialect.name, view)
    is_open = open_positions(Pass, job_id, start, stop)
    kept = select(
        *(literal(job_id), view.c.position, literal(""), literal(shard_id), literal(0), literal(0)),
        *(db_time(), literal(NO_PROVIDER)),
    ).where(clause, view.c.position.in_(is_open))
    code, message = NOT_KEPT, "it does not meet the condition of the filter"
    number = 0
    try:
        with connection.begin_nested():
            passed = insert(Pass).from_select(_COLUMNS, kept).returning(Pass.position)
            number = len(connection.execute(passed).all())
    except DataError as error:
        code = NOT_EVALUATED
        reason = str(error.orig).strip().split("\n")[0]
        message = f"the database cannot evaluate the condition on a document near this one: {reason}"
    others = Document.position.in_(open_positions(Pass, job_id, start, stop))
    connection.execute(
        update(Document)
        .where(in_range(Document, job_id, start, stop), others)
        .values(status=DocumentStatus.SKIPPED, error_code=code, error=message)
    )
    return number


def _view(connection: Connection, condition: Condition, job_id: int, start: int, stop: int) -> Subquery:
    """`v_documents` as the filter sees it, over a range: each column from the stage that it belongs to. (A look-up for
    each value that is named, because a join of views is planned badly.)"""
    chain = select(Job.chain, Job.stage).where(Job.id == job_id).subquery()
    before = select(Job.id, Job.task).where(Job.chain == chain.c.chain, Job.stage < chain.c.stage)
    earlier = connection.execute(before.order_by(Job.stage)).all()
    first = VIEW.alias("first_stage")
    columns: list[ColumnElement[Any]] = [first.c.position]
    for name in dict.fromkeys(["fields", *used_columns(condition)]):
        index = stage_of_column(name, [stage.task for stage in earlier])
        assert index is not None, "submit has checked it"
        if index == 0:
            columns += [] if name == "position" else [first.c[name]]
            continue
        stage = table("v_documents", *map(sql_column, ("job_id", "position", name))).alias(f"of_{name}")
        value = select(stage.c[name]).where(stage.c.job_id == earlier[index].id, stage.c.position == first.c.position)
        columns.append(value.scalar_subquery().label(name))
    here = and_(first.c.job_id == earlier[0].id, first.c.position >= start, first.c.position < stop)
    return select(*columns).where(here).subquery("v_documents")


_COLUMNS = ("job_id", "position", "flags", "shard_id", "epoch", "worker_id", "finished_at", "provider")
