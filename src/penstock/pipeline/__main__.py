"""`python -m penstock.pipeline run NAME…`: the pipeline's commands alone, as `penstock demo` starts them.

Read next: commands.
"""

from penstock.pipeline.commands import app

if __name__ == "__main__":
    app(prog_name="penstock pipeline")
