"""Labels of the scrape that tell more than job and instance: `cluster`, `namespace` and the like."""
import re


def expression(text, scopes):
    """A rule's expression that keeps these labels too."""
    return _grouped(_recorded(text, scopes), scopes)


def recorded(name, scopes):
    """The name of a recorded series tells the labels that it has."""
    return _recorded(name, scopes)


def board(board, scopes):
    """The board with a variable for each of these labels, by which all its queries choose."""
    if not scopes:
        return board
    scoped = _walk(board, scopes)
    variables = scoped["templating"]["list"]
    model = next(one for one in variables if one["name"] == "job")
    place = variables.index(model)
    chosen = [_variable(model, name, scopes[:number]) for number, name in enumerate(scopes)]
    variables[place : place + 1] = [*chosen, _variable(model, "job", scopes, model["label"])]
    return scoped


def _variable(model, label, wider, shown=None):
    of = "leasehold_build_info" + (f"{{{_selector(wider)}}}" if wider else "")
    query = f"label_values({of}, {label})"
    return model | {
        "name": label,
        "label": shown or label.capitalize(),
        "query": {"query": query, "refId": label},
        "definition": query,
    }


def _walk(value, scopes):
    if isinstance(value, dict):
        return {key: _query(inner, scopes) if key in QUERIES and isinstance(inner, str) else _walk(inner, scopes) for key, inner in value.items()}
    return [_walk(inner, scopes) for inner in value] if isinstance(value, list) else value


def _query(text, scopes):
    return _grouped(text.replace('job=~"$job"', f'{_selector(scopes)}, job=~"$job"'), scopes)


def _selector(scopes):
    return ", ".join(f'{name}=~"${name}"' for name in scopes)


def _grouped(text, scopes):
    more = "".join(f"{name}, " for name in scopes)
    return re.sub(r"\b(by|on) \((?=[^)]*\bjob\b)", rf"\1 ({more}", text)


def _recorded(text, scopes):
    more = "".join(f"{name}_" for name in scopes)
    return re.sub(r"\bjob((?:_[a-z]+)*:)", rf"{more}job\1", text)


# Keys of a board's JSON that hold PromQL.
QUERIES = ("expr", "query", "definition")
