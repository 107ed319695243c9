"""A benchmark's result for a terminal."""

from typing import Any

# Processes that wanted a core over the last minute.
BUSY = 0.5


def generation_table(result: dict[str, Any]) -> str:
    """Render what [`wenzhen.benchmark.generate.benchmark_generation`] returns."""
    model = result["model"]
    machine, versions = (result["cases"][0][key] for key in ("machine", "versions"))
    equal = ", ".join(f"{name} {share:.0%}" for name, share in result["equal_answers"].items())
    lines = [
        f"{model['encoder_layers']}+{model['decoder_layers']} layers, d_model {model['d_model']}, "
        f"{model['attention_heads']} heads, d_ff {model['d_ff']:,}, vocabulary {model['vocab_size']:,}: "
        f"{model['parameters']:,} parameters, {model['weights']}",
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, load {machine['load']}; "
        f"accelerator: {machine['accelerator'] or 'none'}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
        f"greedy answers in float32 that are MarianMTModel's, token for token: {equal}",
        *result["notes"],
        *([f"the machine was busy ({machine['load']} processes): measure again when it is quiet"] * is_busy(machine)),
        "ratio: tokens/s over MarianMTModel's in the same repeat (median, low-high); equal: answers that are its own",
    ]
    for case in result["cases"]:
        lines += ["", *case_lines(case)]
    return "\n".join(lines)


def is_busy(machine: dict[str, Any]) -> bool:
    """Tell whether other processes wanted a core just before the benchmark began."""
    return bool(machine["load"] > BUSY)


def case_lines(case: dict[str, Any]) -> list[str]:
    """Render one case: a line for each engine, then where the time goes."""
    length = case["question_tokens"]
    beams = f", {case['num_beams']} beams" if case["num_beams"] > 1 else ""
    lines = [
        f"batch {case['batch_size']}, {case['decoding']}{beams}: {case['new_tokens']} new tokens for questions of "
        f"{length['low']:.0f} to {length['high']:.0f} tokens, {case['repeats']} repeats, {case['device']}, "
        f"{case['dtype']}",
        f"  {'engine':<22}{'threads':>8}{'tokens/s':>10}  {'low-high':<16}{'ratio':>7}  {'low-high':<14}{'equal':>6}",
    ]
    engines = {"MarianMTModel": case["marian"], **case["engines"]}
    for name, engine in engines.items():
        ratio = engine["ratio"]["marian"]
        rates = f"({engine['low']:,.0f}-{engine['high']:,.0f})"
        ratios = f"({ratio['low']:.2f}-{ratio['high']:.2f})"
        lines.append(
            f"  {name:<22}{engine['threads']:>8}{engine['tokens_per_second']:>10,.0f}  {rates:<16}"
            f"{ratio['median']:>7.2f}  {ratios:<14}{engine['equal_answers']:>6.0%}"
        )
    lines.append("  where the time of one more batch goes:")
    for name, engine in engines.items():
        total = sum(engine["seconds"].values())
        parts = ", ".join(f"{part.replace('_', ' ')} {s / total:.0%}" for part, s in engine["seconds"].items())
        memory = f"; {engine['peak_memory_mb']:,.0f} MB at most" if "peak_memory_mb" in engine else ""
        lines.append(f"    {name}: {total:.3g} s: {parts}{memory}")
    return lines
