"""The engines that are compared, one module each. `bench.harness.engine` runs each in a process of its own.

A module has
    prepare(checkpoint, folder, precision) -> model      `folder` is shared by all, and kept between runs
    run(model, segments, *, beams, forced_length) -> the ids of each segment, in order, without start and end
    configuration(model, *, beams) -> str                its settings, versions included
and optionally
    tune(model, segments, *, beams, forced_length)       finds its best settings for such segments
    head_size(model) -> int | None                       target tokens that its head scores; None: all

With a `forced_length` every translation has that many tokens and the end is suppressed; with None it ends by itself.
The engine may use all cores.
"""
