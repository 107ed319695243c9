"""Figure 3.4: what padding and causal masks hide."""

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wenzhen.explain.drawing import heat_map, label_tokens
from wenzhen.explain.masks import Masks

HIDDEN, VISIBLE = "#dddddd", "#0072B2"
TITLES = {
    "encoder": "encoder: padding mask\n编码器：填充掩码",
    "decoder": "decoder, training: causal mask\n解码器（训练）：因果掩码",
    "decoder_padded": "decoder: causal and padding mask\n解码器：因果掩码与填充掩码",
    "cross": "cross-attention: padding mask\n交叉注意力：填充掩码",
}
# An edge of a panel in inches: so much a token, within these bounds.
TOKEN, SMALLEST, LARGEST = 0.13, 2.8, 6.0


def draw(masks: Masks) -> dict[str, Figure]:
    """Draw a row of panels for each text of the batch, a query a row and a key a column."""
    return {"masks": draw_masks(masks)}


def draw_masks(masks: Masks) -> Figure:
    """Draw every mask of every row of the batch."""
    batch, source, target = len(masks.questions), masks.encoder.shape[-1], masks.decoder.shape[-1]
    edge = min(max(TOKEN * max(source, target), SMALLEST), LARGEST)
    figure = Figure(figsize=(len(TITLES) * (edge + 0.55), batch * (edge + 0.7) + 0.6), layout="constrained")
    grid = figure.subplots(batch, len(TITLES), squeeze=False)
    colours = ListedColormap([HIDDEN, VISIBLE])
    for row in range(batch):
        for axes, (name, title) in zip(grid[row], TITLES.items(), strict=True):
            values = getattr(masks, name)[row]
            heat_map(axes, values, cmap=colours, vmin=0, vmax=1)
            queries = masks.questions[row] if name == "encoder" else masks.answers[row]
            keys = masks.questions[row] if name in ("encoder", "cross") else masks.answers[row]
            inches = edge / max(values.shape)
            label_tokens(axes.yaxis, queries, inches)
            label_tokens(axes.xaxis, keys, inches)
            axes.set_xticks([n - 0.5 for n in range(1, len(keys))], minor=True)
            axes.set_yticks([n - 0.5 for n in range(1, len(queries))], minor=True)
            axes.grid(which="minor", color="white", linewidth=0.6)
            axes.tick_params(which="minor", length=0)
            if row == 0:
                axes.set_title(title, fontsize=10)
    grid[0, 0].set_ylabel("query  查询")
    grid[-1, 0].set_xlabel("key  键")
    meanings = [Patch(color=VISIBLE, label="visible  可见"), Patch(color=HIDDEN, label="hidden  遮住")]
    figure.legend(handles=meanings, loc="outside lower center", ncols=2)
    return figure
