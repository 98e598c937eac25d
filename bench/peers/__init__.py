"""The engines that are compared, a module each. `bench.engine` runs each in a process of its own.

A module has
    prepare(checkpoint, folder, precision) -> model      `folder` is shared by all, and kept between runs
    run(model, segments, *, beams, forced_length) -> ids a list a segment, in their order, without start and end
    configuration(model, *, beams) -> str                how it runs, versions included
and, where there is something to say,
    tune(model, segments, *, beams, forced_length)       finds its best settings for such segments
    head_size(model) -> int | None                       target tokens that its head scores, where they are not all

With a `forced_length` every translation has that many tokens and the end is suppressed; with None it ends by itself.
All cores are the engine's to use.
"""
