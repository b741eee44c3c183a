"""Where the project is read on the web: `repository` of Cargo.toml, which is set before the first release."""
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def address(path):
    """The address of a page; without a repository its path in the checkout."""
    package = tomllib.loads((CHECKOUT / "Cargo.toml").read_text())["workspace"]["package"]
    return f"{package['repository']}/blob/main/{path}" if "repository" in package else path
