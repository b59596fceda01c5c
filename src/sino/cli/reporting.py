"""`sino report`: all that runs came to, on one page."""

from sino.cli.verbs import Report
from sino.report.html import TITLE, summary
from sino.report.write import write_report


def report(options: Report) -> None:
    """Write the page, and print the verdict and where it is."""
    found, written = write_report(options.runs, options.out, options.tables, options.title or TITLE)
    print(summary(found))
    for verdict in found:
        print(f"  {verdict.setting.title}: {verdict.sentence}")
    page, *parts = written
    print(f"wrote {page}" + (f", and {len(parts)} tables and figures in {options.tables}" if parts else ""))
