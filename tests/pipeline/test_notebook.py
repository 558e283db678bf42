"""The notebook of examples/ as a user runs it: all cells, in an empty folder, with its own server, Spark and kernel."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "live-data.ipynb"
CELL_SECONDS = 600


@pytest.mark.spark_long
@pytest.mark.timeout(1200)
def test_the_notebook_draws_a_live_chart_reads_history_and_replays_a_backtest(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    output = "\n".join(
        str(one.get("data", {}).get("text/html", "")) + str(one.get("text", ""))
        for cell in notebook.cells
        if cell.cell_type == "code"
        for one in cell.outputs
    )
    assert "<polyline" in output
    assert "last_price" in output
    assert "replayed:" in output
    # Kept without them.
    assert not [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell.get("outputs")]
