"""Whether the models of a job with routes can run it: each leg is checked as a job of its model alone.

Knows: planned routes, how one model is admitted. Does not know: the command line, the table of routes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jobs.errors import ModelError, NotFoundError, SpecError
from jobs.providers import ONNX, Choice, ProviderOrder
from jobs.routing.plan import PlannedLeg, PlannedRoute
from jobs.routing.routes import Leg, Route, revision_of
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from worker.model_tools.admission import admit
from worker.models.contents.present_files import kind_of
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.models.registry import find_model
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

ROUTED = Task.TRANSLATE  # the task whose documents have routes
SKIPPED = "it translates with one model, and this job has routes through several, which onnx runs"


def admit_routes(
    planned: Sequence[PlannedRoute],
    name: str | None,
    options: TranslateOptions,
    asked: ProviderOrder | None,
    settings: Settings,
    *,
    fallback: bool,
    leave_out: Callable[[str], None] | None = None,
) -> JobSpec:
    """The spec of a job with these routes. `name`: of all models together; None: the name of the only route. With
    `leave_out`, which gets a sentence, a route that cannot be used is left out.

    Raises SpecError where onnx is not among the providers, which has to be the first without `fallback`; and what
    `admit` raises for a model that cannot do its part.
    """
    order = _order(asked or settings.provider_order(ROUTED), fallback=fallback)
    routes = tuple(_usable(planned, options, settings, leave_out))
    if name is None:  # languages were named only to find the models: the same models make the same job
        first, last = routes[0].legs[0], routes[0].legs[-1]
        options = replace(options, source_language=first.source_language, target_language=last.target_language)
    return JobSpec(
        task=ROUTED,
        model=name or routes[0].models,
        model_revision=revision_of(routes),
        options=replace(options, routes=routes),
        providers=order,
    )


def _usable(
    planned: Sequence[PlannedRoute],
    options: TranslateOptions,
    settings: Settings,
    leave_out: Callable[[str], None] | None,
) -> Iterator[Route]:
    """The routes whose models can do their part. If none is left, raises the error of `admit`."""
    left = 0
    for route in planned:
        try:
            yield Route(legs=tuple(_legs(route, options, settings)), language=route.language, via=route.via)
        except (SpecError, NotFoundError, ModelError) as error:
            left += 1
            if leave_out is None or left == len(planned):
                raise
            leave_out(f"The route from {route.language} is left out: {error}")


def _order(order: ProviderOrder, *, fallback: bool) -> ProviderOrder:
    names = [choice.name for choice in order.choices]
    if ONNX not in names or (not fallback and names[0] != ONNX):
        raise SpecError(f"{names[0]} cannot do this job: {SKIPPED}; leave --providers out")
    return replace(order, choices=tuple(map(_considered, order.choices)), fallback=fallback)


def _considered(choice: Choice) -> Choice:
    if choice.name != ONNX:
        return replace(choice, skipped=SKIPPED)
    if choice.model is not None:
        raise SpecError(f"onnx runs the job's own models, so that --model names the first one, not {choice}")
    return choice


def _legs(route: PlannedRoute, options: TranslateOptions, settings: Settings) -> Iterator[Leg]:
    *before, last = route.legs
    if before and options.alignments:
        raise SpecError(
            "--alignments is of one model, and documents go through two here: leave it out, or translate in two jobs"
        )
    for leg in before:
        yield _leg(leg, replace(options, n_best=1), settings)  # the next one reads the best
    yield _leg(last, options, settings)


def _leg(leg: PlannedLeg, options: TranslateOptions, settings: Settings) -> Leg:
    """The leg with the revision of its model. Raises the errors of `admit`, with the model's name."""
    label = None if leg.target is None else _label(find_model(leg.model, settings.models_dir), leg.target)
    own = replace(options, source_language=leg.source, target_language=label)
    try:
        spec = admit(ROUTED, leg.model, settings.models_dir, own)
    except SpecError as error:
        raise SpecError(f"{leg.model}: {error}") from None
    assert isinstance(spec.options, TranslateOptions)
    return Leg(
        model=spec.model,
        model_revision=spec.model_revision,
        source_language=leg.source,
        target_language=spec.options.target_language,
    )


def _label(folder: ModelFolder, language: str) -> str | None:
    """The language as the model is to be told it; None where it has one target language only."""
    if kind_of(folder) is not ModelKind.TRANSLATION:
        return language  # `admit` says what is wrong
    tokenizer = open_translation_tokenizer(folder.path)
    for label in (language, None):
        try:
            tokenizer.check_language(label)
        except SpecError:
            continue
        return label
    return language  # which is then refused with the languages that there are
