import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import org.eclipse.ditto.base.model.acks.AcknowledgementLabel;
import org.eclipse.ditto.base.model.common.HttpStatus;
import org.eclipse.ditto.base.model.exceptions.DittoRuntimeException;
import org.eclipse.ditto.base.model.headers.DittoHeaders;
import org.eclipse.ditto.base.model.json.JsonSchemaVersion;
import org.eclipse.ditto.client.DittoClient;
import org.eclipse.ditto.client.DittoClients;
import org.eclipse.ditto.client.changes.Change;
import org.eclipse.ditto.client.changes.ThingChange;
import org.eclipse.ditto.client.configuration.BasicAuthenticationConfiguration;
import org.eclipse.ditto.client.configuration.WebSocketMessagingConfiguration;
import org.eclipse.ditto.client.live.messages.MessageSender;
import org.eclipse.ditto.client.live.messages.RepliableMessage;
import org.eclipse.ditto.client.messaging.AuthenticationProviders;
import org.eclipse.ditto.client.messaging.MessagingProviders;
import org.eclipse.ditto.client.options.Option;
import org.eclipse.ditto.client.options.Options;
import org.eclipse.ditto.json.JsonFactory;
import org.eclipse.ditto.json.JsonObject;
import org.eclipse.ditto.json.JsonPointer;
import org.eclipse.ditto.json.JsonValue;
import org.eclipse.ditto.policies.model.PolicyId;
import org.eclipse.ditto.protocol.ProtocolFactory;
import org.eclipse.ditto.things.model.Thing;
import org.eclipse.ditto.things.model.ThingId;
import org.eclipse.ditto.things.model.ThingsModelFactory;

/**
 * The published Java client of Eclipse Ditto, driven by JSON lines on standard input.
 *
 * Every command has "id", "do" and "client"; its answer has the same "id" and "result" or "error". Events of a client are lines with
 * "client" and "event". The tests are in test_ditto_java_client.py.
 */
public final class Client {
    /** Seconds that the client is waited for. */
    private static final int PATIENCE = 20;

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, DittoClient> CLIENTS = new HashMap<>();

    private Client() {
    }

    public static void main(final String[] arguments) throws Exception {
        say(JsonObject.newBuilder().set("ready", true).build());
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            final JsonObject command = JsonObject.of(line);
            final var answer = JsonObject.newBuilder().set("id", value(command, "id").asInt());
            try {
                say(answer.set("result", carryOut(command)).build());
            } catch (final ExecutionException | CompletionException error) {
                say(answer.set("error", described(error.getCause())).build());
            } catch (final Exception error) {
                say(answer.set("error", described(error)).build());
            }
        }
        // Its threads are not daemons.
        System.exit(0);
    }

    private static JsonValue carryOut(final JsonObject command) throws Exception {
        final String name = text(command, "client");
        if (text(command, "do").equals("open")) {
            CLIENTS.put(name, open(command));
            return JsonValue.nullLiteral();
        }
        final DittoClient client = CLIENTS.get(name);
        switch (text(command, "do")) {
            case "create":
                return wait(client.twin().create(value(command, "thing").asObject(), options(command))).toJson();
            case "create with policy":
                return wait(client.twin().create(value(command, "thing").asObject(),
                        value(command, "policy").asObject(), options(command))).toJson();
            case "put":
                return wait(client.twin().put(value(command, "thing").asObject(), options(command)))
                        .map(thing -> (JsonValue) thing.toJson()).orElse(JsonValue.nullLiteral());
            case "update":
                return nothing(client.twin().update(value(command, "thing").asObject(), options(command)));
            case "merge":
                return nothing(client.twin().merge(thing(command), value(command, "patch").asObject(), options(command)));
            case "delete":
                return nothing(client.twin().delete(thing(command), options(command)));
            case "retrieve":
                return wait(client.twin().forId(thing(command)).retrieve(options(command))).toJson();
            case "retrieve several": {
                final List<ThingId> ids = value(command, "things").asArray().stream()
                        .map(JsonValue::asString).map(ThingId::of).toList();
                return things(wait(client.twin().retrieve(ids)));
            }
            case "put attribute":
                return nothing(client.twin().forId(thing(command))
                        .putAttribute(pointer(command), value(command, "value"), options(command)));
            case "delete attribute":
                return nothing(client.twin().forId(thing(command)).deleteAttribute(pointer(command), options(command)));
            case "put property":
                return nothing(client.twin().forFeature(thing(command), text(command, "feature"))
                        .putProperty(pointer(command), value(command, "value"), options(command)));
            case "put feature":
                return nothing(client.twin().forId(thing(command)).putFeature(ThingsModelFactory.newFeatureBuilder(
                        value(command, "value").asObject()).useId(text(command, "feature")).build(), options(command)));
            case "watch":
                client.twin().registerForThingChanges("changes", change -> {
                    tell(name, changed(change));
                    change.handleAcknowledgementRequests(
                            handles -> handles.forEach(handle -> handle.acknowledge(HttpStatus.NO_CONTENT)));
                });
                return nothing(consumption(command).length == 0
                        ? client.twin().startConsumption() : client.twin().startConsumption(consumption(command)));
            case "stop watching":
                client.twin().deregister("changes");
                return nothing(client.twin().suspendConsumption());
            case "search":
                return things(client.twin().search().stream(query -> {
                    query.filter(text(command, "filter")).options(text(command, "options"));
                    optional(command, "namespace").ifPresent(found -> query.namespace(found.asString()));
                }).toList());
            case "create policy":
                return wait(client.policies().create(value(command, "policy").asObject(), options(command))).toJson();
            case "put policy":
                return wait(client.policies().put(value(command, "policy").asObject(), options(command)))
                        .map(policy -> (JsonValue) policy.toJson()).orElse(JsonValue.nullLiteral());
            case "update policy":
                return nothing(client.policies().update(value(command, "policy").asObject(), options(command)));
            case "retrieve policy":
                return wait(client.policies().retrieve(PolicyId.of(text(command, "policy")), options(command))).toJson();
            case "delete policy":
                return nothing(client.policies().delete(PolicyId.of(text(command, "policy")), options(command)));
            case "listen":
                listen(name, client);
                return nothing(client.live().startConsumption());
            case "send":
                return send(client, command);
            case "live put attribute":
                return nothing(client.live().forId(thing(command)).putAttribute(pointer(command), value(command, "value")));
            case "live retrieve":
                return wait(client.live().forId(thing(command)).retrieve()).toJson();
            case "emit":
                client.live().emitEvent(events ->
                        events.attributeModified(thing(command), pointer(command), value(command, "value")));
                return JsonValue.nullLiteral();
            case "raw":
                return ProtocolFactory.wrapAsJsonifiableAdaptable(wait(client.sendDittoProtocol(
                        ProtocolFactory.jsonifiableAdaptableFromJson(value(command, "envelope").asObject())))).toJson();
            default:
                throw new IllegalArgumentException(text(command, "do"));
        }
    }

    private static DittoClient open(final JsonObject command) throws Exception {
        final var labels = optional(command, "acknowledges").map(JsonValue::asArray).orElse(JsonFactory.newArray()).stream()
                .map(label -> AcknowledgementLabel.of(label.asString())).toList();
        final var configuration = WebSocketMessagingConfiguration.newBuilder()
                .endpoint(text(command, "address"))
                .jsonSchemaVersion(JsonSchemaVersion.V_2)
                .timeout(Duration.ofSeconds(PATIENCE))
                .declaredAcknowledgements(labels)
                .reconnectEnabled(optional(command, "reconnects").isPresent())
                .initialConnectRetryEnabled(false)
                .build();
        final var login = AuthenticationProviders.basic(BasicAuthenticationConfiguration.newBuilder()
                .username(text(command, "user")).password(text(command, "password")).build());
        return wait(DittoClients.newInstance(MessagingProviders.webSocket(configuration, login)).connect());
    }

    /** Messages, claims, commands and events of the live channel are told; what wants an answer gets one. */
    private static void listen(final String name, final DittoClient client) {
        client.live().<String, String>registerForMessage("messages", "*", String.class, message -> {
            // The client gives claims to this handler as well.
            if (message.getSubject().equals("claim")) {
                return;
            }
            tell(name, heard("message", message).set("payload", message.getPayload().orElse("")).build());
            if (message.getSubject().equals("ask")) {
                message.reply().httpStatus(HttpStatus.OK).payload("fine").contentType("text/plain").send();
            }
        });
        client.live().<String, String>registerForClaimMessage("claims", String.class, message -> {
            tell(name, heard("claim", message).build());
            message.reply().httpStatus(HttpStatus.OK).payload("claimed").contentType("text/plain").send();
        });
        client.live().handleModifyAttributeCommands(command -> {
            tell(name, JsonObject.newBuilder().set("kind", "command").set("path", command.getResourcePath().toString())
                    .set("value", command.getAttributeValue()).build());
            return command.answer().withResponse(answers -> answers.modified()).withEvent(events -> events.modified());
        });
        client.live().handleRetrieveThingCommandsFunction(command -> {
            final ThingId id = ThingId.of(command.getEntityId());
            final Thing thing = Thing.newBuilder().setId(id).setAttribute(JsonPointer.of("device"), JsonValue.of(true)).build();
            return command.answer().withResponse(answers -> answers.retrieved(thing));
        });
        client.live().registerForThingChanges("live changes", change -> tell(name, changed(change)));
    }

    private static JsonValue send(final DittoClient client, final JsonObject command) throws Exception {
        final var pending = client.live().<Object>message();
        final var addressed = optional(command, "from").isPresent() ? pending.from(thing(command)) : pending.to(thing(command));
        final MessageSender.SetSubject<Object> placed = optional(command, "feature")
                .<MessageSender.SetSubject<Object>>map(feature -> addressed.featureId(feature.asString())).orElse(addressed);
        final JsonValue payload = value(command, "payload");
        final var message = placed.subject(text(command, "subject"))
                .timeout(Duration.ofSeconds(optional(command, "timeout").map(JsonValue::asInt).orElse(PATIENCE)));
        final var ready = payload.isString()
                ? message.payload(payload.asString()).contentType("text/plain")
                : message.payload(payload).contentType("application/json");
        if (optional(command, "waits").isEmpty()) {
            ready.send();
            return JsonValue.nullLiteral();
        }
        return payload.isString() ? answer(ready, String.class) : answer(ready, JsonValue.class);
    }

    private static <R> JsonValue answer(final MessageSender.MessageSendable<Object> ready, final Class<R> type) throws Exception {
        final var came = new CompletableFuture<JsonValue>();
        ready.send(type, (message, error) -> {
            if (error != null) {
                came.completeExceptionally(error);
            } else {
                came.complete(JsonObject.newBuilder()
                        .set("status", message.getHttpStatus().map(HttpStatus::getCode).orElse(0))
                        .set("payload", message.getPayload().map(Client::json).orElse(JsonValue.nullLiteral()))
                        .build());
            }
        });
        return wait(came);
    }

    private static JsonValue json(final Object payload) {
        return payload instanceof JsonValue value ? value : JsonValue.of(payload.toString());
    }

    private static org.eclipse.ditto.json.JsonObjectBuilder heard(final String kind, final RepliableMessage<?, ?> message) {
        return JsonObject.newBuilder().set("kind", kind).set("subject", message.getSubject())
                .set("thing", message.getEntityId().toString())
                .set("feature", message.getFeatureId().map(JsonValue::of).orElse(JsonValue.nullLiteral()))
                .set("direction", message.getDirection().toString());
    }

    private static JsonObject changed(final ThingChange change) {
        return JsonObject.newBuilder().set("kind", "change").set("action", change.getAction().toString())
                .set("thing", change.getEntityId().toString())
                .set("path", change.getPath().toString())
                .set("value", change.getValue().orElse(JsonValue.nullLiteral()))
                .set("revision", ((Change) change).getRevision())
                .set("extra", change.getExtra().map(extra -> (JsonValue) extra).orElse(JsonValue.nullLiteral()))
                .build();
    }

    private static Option<?>[] options(final JsonObject command) {
        return optional(command, "headers")
                .map(headers -> new Option<?>[] {Options.headers(DittoHeaders.newBuilder(headers.asObject()).build())})
                .orElse(new Option<?>[0]);
    }

    private static Option<?>[] consumption(final JsonObject command) {
        final var found = new java.util.ArrayList<Option<?>>();
        optional(command, "namespace").ifPresent(name -> found.add(Options.Consumption.namespaces(name.asString())));
        optional(command, "filter").ifPresent(filter -> found.add(Options.Consumption.filter(filter.asString())));
        optional(command, "extra").ifPresent(extra -> found.add(
                Options.Consumption.extraFields(JsonFactory.newFieldSelector(extra.asString(),
                        JsonFactory.newParseOptionsBuilder().withoutUrlDecoding().build()))));
        return found.toArray(new Option<?>[0]);
    }

    private static JsonValue things(final List<Thing> found) {
        return found.stream().map(Thing::toJson).collect(org.eclipse.ditto.json.JsonCollectors.valuesToArray());
    }

    private static JsonObject described(final Throwable error) {
        final var found = JsonObject.newBuilder().set("class", error.getClass().getSimpleName())
                .set("message", String.valueOf(error.getMessage()));
        if (error instanceof DittoRuntimeException known) {
            found.set("status", known.getHttpStatus().getCode()).set("error", known.getErrorCode());
        }
        if (error.getCause() != null) {
            found.set("cause", described(error.getCause()));
        }
        return found.build();
    }

    private static <T> T wait(final CompletionStage<T> stage) throws Exception {
        return stage.toCompletableFuture().get(PATIENCE, TimeUnit.SECONDS);
    }

    private static JsonValue nothing(final CompletionStage<?> stage) throws Exception {
        wait(stage);
        return JsonValue.nullLiteral();
    }

    private static ThingId thing(final JsonObject command) {
        return ThingId.of(text(command, "thing"));
    }

    private static JsonPointer pointer(final JsonObject command) {
        return JsonPointer.of(text(command, "path"));
    }

    private static String text(final JsonObject command, final String name) {
        return value(command, name).asString();
    }

    private static JsonValue value(final JsonObject command, final String name) {
        return optional(command, name).orElseThrow(() -> new IllegalArgumentException("there is no " + name));
    }

    private static Optional<JsonValue> optional(final JsonObject command, final String name) {
        return command.getValue(name);
    }

    private static void tell(final String name, final JsonObject event) {
        say(JsonObject.newBuilder().set("client", name).set("event", event).build());
    }

    private static synchronized void say(final JsonObject line) {
        OUT.println(line);
    }
}
