// The published JavaScript clients, for Node.js and for browsers, driven by JSON lines.
// Not here: what commands and events there are (../published.py, which talks to all drivers), and how lines come and go
// (../node/client.cjs for Node.js, web_client.py for a browser).
// Read next: python_client.py and ../java/Client.java, its twins.
"use strict";

// `say` takes a line. Returns the function that takes lines.
globalThis.driveClient = function ({ LightstreamerClient, Subscription }, say) {
  const emit = (client, event, details) => say(JSON.stringify({ client, event, ...details }));

  // Properties of the connection that the server decides.
  const REPORTED = {
    sessionId: (client) => client.connectionDetails.getSessionId(),
    serverSocketName: (client) => client.connectionDetails.getServerSocketName(),
    clientIp: (client) => client.connectionDetails.getClientIp(),
    realMaxBandwidth: (client) => client.connectionOptions.getRealMaxBandwidth(),
    keepaliveInterval: (client) => client.connectionOptions.getKeepaliveInterval(),
  };

  const connections = new Map();

  function fieldsOf(iterate) {
    const values = {};
    iterate((field, _position, value) => (values[field] = value));
    return values;
  }

  function updates(name, subscription) {
    const report = (event, details) => emit(name, event, { subscription, ...details });
    return {
      onSubscription: () => report("subscribed"),
      onUnsubscription: () => report("unsubscribed"),
      onSubscriptionError: (code, message) => report("subscription error", { code, message }),
      onItemUpdate: (update) =>
        report("update", {
          item: update.getItemName(),
          snapshot: update.isSnapshot(),
          values: fieldsOf((take) => update.forEachField(take)),
          changed: fieldsOf((take) => update.forEachChangedField(take)),
        }),
      onEndOfSnapshot: (item) => report("end of snapshot", { item }),
      onItemLostUpdates: (item, _position, count) => report("lost updates", { item, count }),
      onCommandSecondLevelSubscriptionError: (code, message, key) => report("second level error", { key, code, message }),
      onCommandSecondLevelItemLostUpdates: (count, key) => report("second level lost updates", { key, count }),
      onRealMaxFrequency: (value) => report("max frequency", { value }),
    };
  }

  function outcome(name) {
    const report = (text, result, details) => emit(name, "message", { text, outcome: result, ...details });
    return {
      // Generations before the ninth hand over no response.
      onProcessed: (text, response = null) => report(text, "processed", { response }),
      onDeny: (text, code, message) => report(text, "denied", { code, message }),
      onAbort: (text, sent) => report(text, "aborted", { sent }),
      onDiscarded: (text) => report(text, "discarded"),
      onError: (text) => report(text, "failed"),
    };
  }

  const COMMANDS = {
    connect(name, { address, adapter_set, transport, user, options }) {
      const client = new LightstreamerClient(address, adapter_set);
      if (transport !== null) client.connectionOptions.setForcedTransport(transport);
      if (user !== null) client.connectionDetails.setUser(user);
      for (const [option, value] of Object.entries(options)) client.connectionOptions[`set${option}`](value);
      connections.set(name, { client, subscriptions: new Map() });
      client.addListener({
        onStatusChange: (status) => emit(name, "status", { status, session: client.connectionDetails.getSessionId() }),
        onServerError: (code, message) => emit(name, "server error", { code, message }),
        onPropertyChange: (property) => {
          const value = REPORTED[property];
          if (value) emit(name, "property", { name: property, value: value(client) });
        },
      });
      client.connect();
    },
    subscribe(name, { subscription, mode, items, fields, adapter, snapshot, second_level }) {
      const { client, subscriptions } = connections.get(name);
      const made = new Subscription(mode, items, fields);
      made.setDataAdapter(adapter);
      if (snapshot !== null) made.setRequestedSnapshot(snapshot);
      if (second_level !== null) {
        made.setCommandSecondLevelDataAdapter(second_level.adapter);
        made.setCommandSecondLevelFields(second_level.fields);
      }
      made.addListener(updates(name, subscription));
      subscriptions.set(subscription, made);
      client.subscribe(made);
    },
    limit_frequency(name, { subscription, frequency }) {
      connections.get(name).subscriptions.get(subscription).setRequestedMaxFrequency(frequency);
    },
    unsubscribe(name, { subscription }) {
      const { client, subscriptions } = connections.get(name);
      client.unsubscribe(subscriptions.get(subscription));
      subscriptions.delete(subscription);
    },
    send(name, { text, sequence, delay_timeout, enqueue }) {
      connections.get(name).client.sendMessage(text, sequence, delay_timeout, outcome(name), enqueue);
    },
    limit_bandwidth(name, { bandwidth }) {
      connections.get(name).client.connectionOptions.setRequestedMaxBandwidth(bandwidth);
    },
    disconnect(name) {
      connections.get(name).client.disconnect();
      connections.delete(name);
    },
  };

  emit("", "ready", { version: LightstreamerClient.LIB_VERSION });
  return (line) => {
    const command = JSON.parse(line);
    try {
      COMMANDS[command.do](command.client, command);
    } catch (error) {
      emit(command.client, "refused", { reason: String(error) });
    }
  };
};
