"""What is kept is what the generator writes."""
from generator import output


# Whatever is in them is generated.
KEPT = ["boards/*", "rules/**/*.yml", "kubernetes/*", "provisioning/keep.yml"]


def faults(folder):
    files = output.files()
    kept = {str(path.relative_to(folder)) for pattern in KEPT for path in folder.glob(pattern)}
    strangers = [f"{name} is not generated" for name in sorted(kept - files.keys())]
    return strangers + [
        f"{name} is not what the generator writes: run dashboards/generate"
        for name, text in files.items()
        if name not in kept or (folder / name).read_text() != text
    ]
