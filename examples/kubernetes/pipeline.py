"""`penstock pipeline` as a program for spark-submit, which takes files and no commands."""

from penstock.pipeline.commands import app

if __name__ == "__main__":
    app(prog_name="penstock pipeline")
