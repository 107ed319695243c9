"""A benchmark's result for a terminal."""

from typing import Any

from wenzhen.benchmark.contestants import NAMES

# Processes that wanted a core over the last minute.
BUSY = 0.5
MEMORY_NAMES = {**NAMES, "ours_with_activation_checkpointing": "wenzhen with activation checkpointing"}


def generation_table(result: dict[str, Any]) -> str:
    """Render what [`wenzhen.benchmark.generate.benchmark_generation`] returns."""
    model, machine = result["model"], result["cases"][0]["machine"]
    equal = ", ".join(f"{name} {share:.0%}" for name, share in result["equal_answers"].items())
    lines = [
        f"{shape_line(model)}, {model['weights']}",
        *machine_lines(machine, result["cases"][0]["versions"]),
        f"greedy answers in float32 that are MarianMTModel's, token for token: {equal}",
        *result["notes"],
        *busy_lines(machine),
        "ratio: tokens/s over MarianMTModel's in the same repeat (median, low-high); equal: answers that are its own",
    ]
    for case in result["cases"]:
        lines += ["", *case_lines(case)]
    return "\n".join(lines)


def shape_line(model: dict[str, Any]) -> str:
    """Say how large the model is."""
    return (
        f"{model['encoder_layers']}+{model['decoder_layers']} layers, d_model {model['d_model']}, "
        f"{model['attention_heads']} heads, d_ff {model['d_ff']:,}, vocabulary {model['vocab_size']:,}: "
        f"{model['parameters']:,} parameters"
    )


def machine_lines(machine: dict[str, Any], versions: dict[str, str]) -> list[str]:
    """Say what was measured on, and with what."""
    return [
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB, load {machine['load']}; "
        f"accelerator: {machine['accelerator'] or 'none'}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]


def busy_lines(machine: dict[str, Any]) -> list[str]:
    """Warn where other processes wanted a core just before the benchmark began."""
    if machine["load"] <= BUSY:
        return []
    return [f"the machine was busy ({machine['load']} processes): measure again when it is quiet"]


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


def training_table(result: dict[str, Any]) -> str:
    """Render what [`wenzhen.benchmark.train.benchmark_training`] returns."""
    settings, pairs, products = (result[key] for key in ("settings", "pairs", "matrix_products"))
    chosen = [name.replace("_", " ") for name in ("torch_compile", "activation_checkpointing") if settings[name]]
    lengths = "; ".join(
        f"{side} of {pairs[key]['mean']:.0f} tokens (median {pairs[key]['median']:.0f}, 99 % {pairs[key]['p99']:.0f})"
        for side, key in (("questions", "question_tokens"), ("answers", "answer_tokens"))
    )
    rates = ", ".join(f"{rate['median'] / 1e9:,.0f} in {dtype}" for dtype, rate in products.items())
    lines = [
        shape_line(result["model"]),
        *machine_lines(result["machine"], result["versions"]),
        *busy_lines(result["machine"]),
        f"steps of an epoch of {pairs['count']:,} pairs, {pairs['origin']}: {lengths}",
        f"{settings['repeats']} repeats of {settings['steps']} steps of {settings['batch_size']} pairs, "
        + ", ".join([settings["device"], settings["dtype"], *chosen]),
        f"matrix products alone, GFLOP/s: {rates}",
        "",
        "ours: as wenzhen train runs the thesis' recipe, but for what is said above",
        "MarianMTModel under Seq2SeqTrainer: with its defaults (float32, random batches), with our settings (its own "
        "grouping by length), or with our batches besides",
        "tokens/s: of questions and answers, padding not counted; real: share of real tokens in the batches",
        "GFLOP/s: what real tokens need; limit: their share of the fastest matrix products",
        "ratio: our pairs/s over this one's in the same repeat (median, low-high)",
        f"  {'':<28}{'pairs/s':>8}  {'low-high':<16}{'tokens/s':>10}{'real':>6}{'GFLOP/s':>9}{'limit':>7}"
        f"{'ratio':>7}  low-high",
    ]
    entries = {key: result[key] for key in NAMES}
    for key, entry in entries.items():
        rates = f"({entry['low']:,.1f}-{entry['high']:,.1f})"
        line = (
            f"  {NAMES[key]:<28}{entry['pairs_per_second']:>8,.1f}  {rates:<16}"
            f"{entry['real_tokens_per_second']:>10,.0f}{entry['real_share']:>6.0%}{entry['gflops']:>9,.0f}"
            f"{entry['machine_share']:>7.0%}"
        )
        if key in result["ratio"]:
            ratio = result["ratio"][key]
            line += f"{ratio['median']:>7.2f}  ({ratio['low']:.2f}-{ratio['high']:.2f})"
        lines.append(line)
    lines += [
        "  peak memory in MB on the largest batch, libraries not counted: "
        + "; ".join(f"{MEMORY_NAMES[key]} {value:,.0f}" for key, value in result["peak_memory_mb"].items()),
        "  a first step on the same pairs without dropout, and the mean loss of the last repeat:",
        f"  {'':<28}{'loss':>9}{'gradient':>9}{'last':>9}",
    ]
    for key, entry in entries.items():
        first = entry["first_step"]
        lines.append(f"  {NAMES[key]:<28}{first['loss']:>9.4f}{first['grad_norm']:>9.4f}{entry['loss']:>9.4f}")
    if result["profile"]:
        shares = sorted(result["profile"].items(), key=lambda item: -item[1])
        lines.append("  where our time goes: " + ", ".join(f"{name} {share:.0%}" for name, share in shares))
    return "\n".join(lines)
