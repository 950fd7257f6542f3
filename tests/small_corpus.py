"""A small corpus of several kinds of files, and settings to ingest it quickly."""

from __future__ import annotations

import json
from pathlib import Path

FAKE = [
    "embed.model=fake:64",
    "enrich.max_tokens=24",
    "chunk.size=40",
    "chunk.overlap=4",
    "resources.encoders=1",
]


def write_corpus(folder: Path) -> Path:
    """A few files of different kinds, one of them broken, and records with metadata."""
    folder.mkdir(parents=True)
    (folder / "pump.md").write_text(
        "# Pump manual\n\n## Safety\n\nSwitch the pump off before you open the lid.\n\n"
        "## Limits\n\n| quantity | limit |\n|---|---|\n| pressure | 12 bar |\n| flow | 40 l/min |\n"
    )
    (folder / "garden.txt").write_text(
        "The garden opens in April.\n\nTulips bloom in May and roses in June.\n"
    )
    (folder / "page.html").write_text(
        "<html><head><title>Visiting</title></head><body><main><h1>Visiting</h1>"
        "<p>Tickets cost nine euros for adults and four euros for children under twelve. "
        "They are sold at the gate on every day of the week until five in the evening.</p>"
        "</main></body></html>"
    )
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    records = [
        {"_id": f"r{i}", "title": f"Star {i}", "text": f"Star {i} shines in colour number {i}.",
         "year": 2000 + i, "kind_of": "star" if i % 2 else "planet"}
        for i in range(20)
    ]  # fmt: skip
    (folder / "stars.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    return folder
