"""The append-only history of all journaled entities: segment files of Arrow record batches, checksummed and synced.

`Journal` writes, one per directory; `JournalReader` reads while it is written, in any process. The import of this
package costs neither: take them from `penstock.journal.journal` and `penstock.journal.reader`. Read next:
docs/journal.md.
"""
