"""PromQL as the boards write it.

`@process` stands for the variables that choose processes, `@lock` for those and the class and kind of locks, `@rate` for
the window of a rate.
"""

PROCESS = 'job=~"$job", instance=~"$instance"'
LOCK = PROCESS + ', class=~"$class", kind=~"$kind"'
RATE = "$__rate_interval"


def query(text):
    filled = text.replace("@lock", LOCK).replace("@process", PROCESS).replace("@rate", RATE)
    return " ".join(filled.split())


def series(text, legend):
    """One line, or one for each label that the query keeps."""
    return {"expr": query(text), "legendFormat": legend}


def quantiles(metric, selector, shares=(0.99, 0.5), by=()):
    """Lines for shares of what a histogram counted, named like `p99 orders`."""
    labels = ", ".join([*by, "le"])
    names = "".join(f" {{{{{label}}}}}" for label in by)
    return [
        series(
            f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{{selector}}}[@rate])))",
            f"p{share * 100:g}{names}",
        )
        for share in shares
    ]


def present(lines):
    """Without lines of which nothing was counted: where the lowest come first, they would stand above them."""
    return [line | {"expr": line["expr"] + " >= 0"} for line in lines]


def highest(text):
    """For a table: the twenty highest that are not 0, and one row if all are."""
    return series(f"topk(20, {text} > 0) or topk(1, {text})", "")


def mean(metric, selector, legend):
    """0 where nothing was counted."""
    return series(
        f"sum(rate({metric}_sum{{{selector}}}[@rate])) / clamp_min(sum(rate({metric}_count{{{selector}}}[@rate])), 1e-9)", legend
    )
