"""`pytest -p tests.fast` leaves out what takes long: the one list of it, for `make test-fast`.

Out are tests with a JVM, a browser, PostgreSQL, NATS, another broker, Prometheus or a published client, those that
start processes or kill them, those that wait for time-outs of real sockets, suites that run a second time over the
fabric of a cluster, those with very many clients, items or events, and the longest searches. All of them run in
`make test`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import certifi
import pytest

MARKS = (
    "browser",
    "cluster_long",
    "helm_long",
    "install_long",
    "interop",
    "interop_long",
    "prometheus_long",
    "spark",
    "spark_long",
)

# In the parameters of a test that runs with several databases.
DATABASE = "postgresql"

# Folders, files and tests. One that is not there any more is an error.
SLOW = {
    "tests/adapters/access/test_commands.py",
    "tests/adapters/access/test_documentation.py",
    "tests/adapters/access/test_metadata.py::test_a_session_ends_when_its_token_expires",
    "tests/adapters/access/test_metadata.py::test_checking_passwords_leaves_the_event_loop_free",
    "tests/adapters/brokers/test_secured.py",
    "tests/adapters/ingest/test_batch_routes.py",
    "tests/adapters/ingest/test_kill.py",
    "tests/adapters/ingest/test_kill_large.py",
    "tests/adapters/ingest/test_memory.py::test_a_file_that_is_damaged_anywhere_is_not_taken_for_a_whole_one",
    "tests/adapters/ingest/test_model.py",
    "tests/adapters/ingest/test_unwritten.py::test_a_server_that_is_killed_has_shown_nothing_that_the_next_one_does_not_know",
    "tests/adapters/kafka/test_adapter.py",
    "tests/adapters/kafka/test_documentation.py",
    "tests/adapters/monitor/test_page.py",
    "tests/adapters/mqtt",
    "tests/adapters/nats",
    "tests/adapters/remote/test_metadata.py",
    "tests/adapters/test_journaling.py::test_what_is_published_is_what_the_journal_holds",
    "tests/backup",
    "tests/bench",
    "tests/build",
    "tests/client/test_admin_commands.py",
    "tests/client/test_benching.py",
    "tests/client/test_cluster_commands.py",
    "tests/client/test_connection.py",
    "tests/client/test_connection_commands.py",
    "tests/client/test_contexts.py",
    "tests/client/test_publishing.py",
    "tests/client/test_status.py",
    "tests/client/test_tlex.py::test_a_client_stays_alive_by_itself",
    "tests/client/test_tlex_commands.py",
    "tests/client/test_top.py",
    "tests/client/test_watch_mistakes.py",
    "tests/client/test_watch_outages.py",
    "tests/client/test_watching.py",
    "tests/cluster/test_guest_access.py",
    "tests/cluster/test_guest_authority.py",
    "tests/cluster/test_guest_customizing.py",
    "tests/cluster/test_guest_limits.py",
    "tests/cluster/test_guest_push.py",
    "tests/cluster/test_guest_remote_metadata.py",
    "tests/cluster/test_nats.py",
    "tests/cluster/test_supervisor.py",
    "tests/cluster/test_tenure.py",
    "tests/conformance/ditto/test_policies.py",
    "tests/conformance/test_admin.py::test_a_process_stops_when_it_has_drained",
    "tests/conformance/test_admin.py::test_the_configuration_is_read_again",
    "tests/conformance/test_monitor.py",
    "tests/conformance/test_parallel.py",
    "tests/conformance/tlex/test_limits.py",
    "tests/conformance/tlex/test_stream.py",
    "tests/contract",
    "tests/devices/test_company.py",
    "tests/doors/ditto/openapi/test_schemathesis.py",
    "tests/doors/ditto/test_http.py::test_a_state_older_than_the_journal_stops_the_start",
    "tests/doors/ditto/test_lost_state.py",
    "tests/doors/ditto/test_sparse.py",
    "tests/doors/ditto/test_sse.py::test_a_reader_who_reads_nothing_does_not_keep_the_server_from_stopping",
    "tests/doors/ditto/test_sse.py::test_live_streams_end_when_the_server_stops",
    "tests/doors/ditto/test_streaming_document.py",
    "tests/doors/ditto/test_websocket.py",
    "tests/doors/ditto/test_websocket_connection.py",
    "tests/doors/stream/test_adaptive.py",
    "tests/doors/stream/test_bad_events.py",
    "tests/doors/stream/test_bad_input.py",
    "tests/doors/stream/test_demo_api.py",
    "tests/doors/stream/test_folder.py::test_a_server_that_stops_ends_a_download_under_way",
    "tests/doors/stream/test_hand_over.py",
    "tests/doors/stream/test_hand_over_model.py",
    "tests/doors/stream/test_pressure.py",
    "tests/doors/tlcp/test_batch.py::test_a_batch_of_thousands_of_lines_lets_others_have_their_turns",
    "tests/doors/tlcp/test_burst.py",
    "tests/doors/tlex/test_documentation.py",
    "tests/doors/tlex/test_door.py::test_what_ended_with_the_server_is_in_the_log",
    "tests/doors/tlex/test_listener.py::test_a_hundred_controllers_at_once_lose_nothing",
    "tests/doors/tlex/test_openapi.py",
    "tests/doors/tlex/test_postgres.py",
    "tests/doors/tlex/test_schemathesis.py",
    "tests/doors/tlex/test_two_hundred_sessions.py",
    "tests/e2e",
    "tests/erasure/test_commands.py",
    "tests/erasure/test_erasure.py",
    "tests/erasure/test_hub_lease.py",
    "tests/history/test_last.py::test_it_is_the_last_of_those_before_a_time",
    "tests/history/test_reader.py::test_reads_equal_a_plain_list_whatever_moves_meanwhile",
    "tests/history/test_reader.py::test_threads_read_while_a_job_writes_compacts_and_the_journal_drops",
    "tests/history/test_reader.py::test_two_hundred_thousand_events_of_one_entity_are_read_with_a_few_megabytes",
    "tests/history/test_start.py",
    "tests/history/test_start.py::test_the_first_read_does_not_load_pandas",
    "tests/history/test_tables.py::test_nothing_is_doubled_or_missed_at_any_seam",
    "tests/interop",
    "tests/journal/test_active.py",
    "tests/journal/test_arrays.py::test_writing_and_reading_the_journal_does_not_load_pandas",
    "tests/journal/test_crash.py",
    "tests/journal/test_erasing.py",
    "tests/journal/test_fence.py::test_whenever_an_old_owner_is_frozen_nothing_acknowledged_is_lost_and_nothing_late_is_seen",
    "tests/journal/test_kill.py",
    "tests/journal/test_long.py",
    "tests/journal/test_reader.py",
    "tests/journal/test_seek.py::test_nothing_that_is_wanted_is_before_the_place_that_is_found",
    "tests/journal/test_segment.py::test_every_flipped_bit_of_a_segment_header_is_noticed_and_the_other_copy_serves",
    "tests/journal/test_verification.py",
    "tests/kernel/test_bad_events.py::test_a_group_of_10_000_items_is_accepted_and_each_item_updated",
    "tests/kernel/test_bad_events.py::test_a_hundred_updates_of_10_000_fields_take_no_more_than_moments",
    "tests/kernel/test_bad_events.py::test_a_value_of_10_mb_arrives_whole",
    "tests/kernel/test_bandwidth.py::test_no_second_carries_more_than_the_limit_and_in_the_long_run_nearly_all_is_used",
    "tests/kernel/test_planted_sharing.py::test_nothing_can_be_done_for_one_client_on_a_stream_that_it_may_share",
    "tests/kernel/test_sharing.py::test_the_lanes_of_a_session_with_very_many_are_not_gone_through_whenever_it_asks_for_something",
    "tests/monitor/test_exposition.py::test_promtool_finds_nothing_wrong_with_hostile_labels",
    "tests/monitor/test_health.py",
    "tests/mutants",
    "tests/pipeline/test_classes.py::test_a_real_jvm_makes_an_archive_and_starts_with_it",
    "tests/pipeline/test_commands.py",
    "tests/pipeline/test_kill_history.py",
    "tests/pipeline/test_lake.py",
    "tests/pipeline/test_lake_url.py",
    "tests/pipeline/test_ledger.py",
    "tests/pipeline/test_notebook.py",
    "tests/pipeline/test_outlet.py::test_an_api_port_with_tls_is_trusted_if_the_environment_says_so",
    "tests/pipeline/test_publish.py",
    "tests/pipeline/test_remote.py",
    "tests/pipeline/test_sink.py",
    "tests/pipeline/test_source.py::test_offsets_and_plans_from_before_an_erasure_are_right_after_it",
    "tests/providers/test_apns.py::test_a_provider_that_hangs_for_one_device_serves_the_others",
    "tests/providers/test_fcm.py",
    "tests/providers/test_http.py::test_a_request_that_hangs_ends_at_the_time_out_while_others_on_the_connection_are_answered",
    "tests/providers/test_http.py::test_many_requests_at_once_share_one_connection_and_each_gets_its_own_answer",
    "tests/push/test_memory.py",
    "tests/push/test_thresholds.py::test_a_hundred_thousand_that_wait_and_one_constant_for_all_of_them_cost_nothing_to_speak_of",
    "tests/push/trigger/test_java.py",
    "tests/recovery",
    "tests/services/admin/test_documentation.py",
    "tests/services/admin/test_drain.py",
    "tests/services/admin/test_schemathesis.py",
    "tests/services/cluster/test_clients.py",
    "tests/services/cluster/test_tlex.py",
    "tests/services/connections",
    "tests/services/outlets",
    "tests/services/push/test_life.py",
    "tests/services/push/test_nodes.py",
    "tests/services/push/test_operations.py::test_commands_print_tables_and_send_tests",
    "tests/services/readers/test_routes.py",
    "tests/services/readers/test_routes.py::test_a_reader_that_reads_nothing_makes_the_server_read_no_more",
    "tests/services/test_figures.py::test_metrics_are_what_prometheus_reads_in_both_formats_and_promtool_finds_nothing_wrong",
    "tests/services/test_figures_speed.py",
    "tests/services/test_operations.py::test_prometheus_takes_the_configuration_of_the_page",
    "tests/services/test_pauses.py",
    "tests/store/test_fence.py",
    "tests/store/test_presence.py",
    "tests/store/test_push.py::test_nobody_waits_for_a_node_that_is_frozen_while_it_writes",
    "tests/store/test_push.py::test_transactions_that_are_idle_for_long_are_ended",
    "tests/store/test_push_model.py",
    "tests/store/test_push_race.py",
    "tests/store/test_push_speed.py",
    "tests/test_cli.py",
    "tests/test_cli_completion.py",
    "tests/test_collector.py",
    "tests/test_extras.py",
    "tests/test_init.py",
    "tests/test_install.py",
    "tests/test_wheel.py",
    "tests/transport/test_smuggling.py",
    "tests/transport/test_websocket.py",
    "tests/twins/test_milestone.py",
    "tests/twins/test_state.py",
    "tests/wire/ari/test_packets.py::test_a_packet_with_something_behind_it_is_bad_or_a_longer_one",
    "tests/wire/records/test_mapping.py::test_the_short_way_to_a_name_is_the_same_as_the_long_one",
    "tests/wire/text6/test_requests.py::test_bad_percent_encoding_is_a_protocol_error_wherever_it_stands",
    "tests/wire/tlcp/test_differences.py::test_a_client_that_follows_has_the_same_texts_or_the_same_documents",
    "tests/wire/tlcp/test_requests.py::test_bad_percent_encoding_is_malformed_wherever_it_stands",
}


def pytest_configure(config: pytest.Config) -> None:
    # Each client of httpx reads the certificates of all authorities, also if it never speaks TLS, which takes longer
    # than most tests. Nothing here connects to another machine: one of them will do.
    config.add_cleanup(_trust_one_authority())
    for name in SLOW:
        path, _, test = name.partition("::")
        place = config.rootpath / path
        if not place.exists() or f"def {test}" not in (place.read_text() if test else "def "):
            raise pytest.UsageError(f"tests/fast.py: there is no {name}")


def _trust_one_authority() -> Callable[[], None]:
    """To be called at the end, when the file is not needed any more."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    folder = TemporaryDirectory()
    file = Path(folder.name, "authority.pem")
    file.write_text(first + end)
    os.environ["SSL_CERT_FILE"] = str(file)
    return folder.cleanup


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return collection_path.relative_to(config.rootpath).as_posix() in SLOW or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    slow = {item for item in items if _is_slow(item)}
    config.hook.pytest_deselected(items=[item for item in items if item in slow])
    items[:] = [item for item in items if item not in slow]


def _is_slow(item: pytest.Item) -> bool:
    test, _, parameters = item.nodeid.partition("[")
    return test in SLOW or DATABASE in parameters or any(item.get_closest_marker(mark) for mark in MARKS)
