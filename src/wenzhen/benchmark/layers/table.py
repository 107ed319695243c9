"""Table 4.2 for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from wenzhen.benchmark.table import busy_lines, machine_lines

MB = 2**20


def layers_table(result: Mapping[str, Any]) -> str:
    """Render what [`wenzhen.benchmark.layers.measure.benchmark_layers`] returns."""
    settings, layers = result["settings"], result["layers"]
    fixed, path_size = settings["fixed"], settings["path_size"]
    return "\n".join(
        [
            *machine_lines(result["machine"], result["versions"]),
            *busy_lines(result["machine"]),
            f"{settings['batch_size']} sequences, {settings['dtype']} on the CPU, threads: {settings['threads']}; the "
            f"shortest {settings['clock']} time in rounds: {settings['repeats']}",
            f"n {fixed['n']}, d {fixed['d']} and k {fixed['k']} where they do not vary; heads of "
            f"{settings['head_dim']}",
            "",
            "Exponents of time and of memory kept for the backward pass, as measured",
            "  table: the thesis' table 4.2 (n²·d, n·d², k·n·d²); counted: of all matrix products, or all that is "
            "kept, at the same sizes",
            "  attention alone: scores, softmax and values in one kernel, no projections; written out: step by step",
            f"  sizes: around the most operations a second, those with at least {settings['share']:.0%} as many",
            *exponent_lines(layers),
            "",
            "Memory in MB, without parameters: kept for the backward pass, and the peak of both passes",
            *memory_lines(layers),
            "",
            f"Operations in sequence, each waiting for the one before, and the way from the first input to the last "
            f"output; d {path_size['d']}, k {path_size['k']}, {path_size['dtype']}",
            *path_lines(result["paths"]),
        ]
    )


def exponent_lines(layers: Mapping[str, Any]) -> Iterator[str]:
    """Render a line for each layer and each letter that its cost depends on."""
    passes = "".join(f"{name:>13}{'counted':>9}  {'sizes':<8}" for name in ("forward", "both passes"))
    yield f"  {'layer':<22}{'of':>3}{'table':>7}{passes}{'kept':>6}{'counted':>9}"
    for layer in layers.values():
        for letter, costs in layer["against"].items():
            fits = costs["fits"]
            times = "".join(
                f"{exponents(fits[name], 13, 9)}  {sizes(fits[name]):<8}" for name in ("forward", "training")
            )
            yield f"  {layer['title']:<22}{letter:>3}{layer['table'][letter]:>7}{times}{exponents(fits['kept'], 6, 9)}"


def exponents(fit: Mapping[str, Any] | None, *widths: int) -> str:
    """Render what was measured and what was counted."""
    values = [fit["exponent"], fit["counted"]] if fit else []
    # The sum spares a zero its sign.
    cells = [f"{round(value, 2) + 0.0:.2f}" for value in values] or ["-", "-"]
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def sizes(fit: Mapping[str, Any] | None) -> str:
    """Render the sizes that an exponent is of."""
    return f"{fit['first']}-{fit['last']}" if fit else "too few"


def memory_lines(layers: Mapping[str, Any]) -> Iterator[str]:
    """Render a line for each layer: memory at the largest length and at the largest width."""
    columns = next(iter(layers.values()))["against"]
    places = [(letter, -1) for letter in ("n", "d")]
    heads = (f"{letter} {columns[letter]['sizes'][place]:,}" for letter, place in places)
    yield f"  {'layer':<22}" + "".join(f"{head + ': kept':>16}{'peak':>8}" for head in heads)
    for layer in layers.values():
        cells = (
            f"{layer['against'][letter]['kept_bytes'][place] / MB:>16,.1f}"
            f"{layer['against'][letter]['peak_bytes'][place] / MB:>8,.1f}"
            for letter, place in places
        )
        yield f"  {layer['title']:<22}" + "".join(cells)


def path_lines(paths: Mapping[str, Any]) -> Iterator[str]:
    """Render three lines for each network."""
    lengths = next(iter(paths.values()))["lengths"]
    yield f"  {'':<59}{'table':>9}" + "".join(f"{f'n {length}':>6}" for length in lengths)
    for network in paths.values():
        for name, what in (
            ("sequential", "operations of a layer in sequence"),
            ("layers", "layers to the last output"),
            ("path", "operations in sequence on that way"),
        ):
            title = network["title"] if name == "sequential" else ""
            values = "".join(f"{value:>6}" for value in network[name])
            yield f"  {title:<24}{what:<35}{network['table'].get(name, ''):>9}{values}"
