// The adapters of the contract by the published SDK for Node.js: states, request port, notify port and metadata port on
// the command line. Commands on standard input, reports on standard output, both in JSON lines: see ../backends.py.
'use strict';

const net = require('net');
const readline = require('readline');
const { DataProvider, MetadataProvider } = require('lightstreamer-adapter');

const states = JSON.parse(process.argv[2]);
const [requestPort, notifyPort, metadataPort] = process.argv.slice(3).map(Number);
const credentials = { user: 'ru', password: 'p w' };

const tell = (event, details) => process.stdout.write(JSON.stringify({ event, ...details }) + '\n');

function connect(port) {
  const stream = net.createConnection(port, '127.0.0.1');
  stream.on('error', () => process.exit(1));
  stream.on('close', () => process.exit(0));
  return stream;
}

// -- data -----------------------------------------------------------------------------------------------------------

const data = new DataProvider(
  connect(requestPort), connect(notifyPort), (item) => !item.startsWith('plain'), credentials, 1000);
let pump = null;
let count = 0;

data.on('init', (message, response) => {
  tell('init', { parameters: message.parameters });
  response.success();
});
data.on('subscribe', (item, response) => {
  tell('subscribe', { item });
  if (item === 'refused') return response.error('no such item', 'subscription');
  if (item === 'broken') return response.error('a mistake');
  response.success();
  if (states[item]) {
    states[item].forEach((event) => data.update(item, true, event));
    data.endOfSnapshot(item);
  }
});
data.on('unsubscribe', (item, response) => {
  tell('unsubscribe', { item });
  response.success();
});

const commands = {
  state: ({ item, events }) => {
    states[item] = events;
    tell('state', { item });
  },
  update: ({ item, event, snapshot }) => data.update(item, snapshot, event),
  end: ({ item }) => data.endOfSnapshot(item),
  clear: ({ item }) => data.clearSnapshot(item),
  pump: ({ items }) => {
    pump = setInterval(() => {
      count += 1;
      items.forEach((item) => data.update(item, false, { n: String(count) }));
    }, 1);
  },
  halt: () => {
    clearInterval(pump);
    tell('halted', { count });
  },
};
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const command = JSON.parse(line);
  commands[command.do](command);
});

// -- metadata -------------------------------------------------------------------------------------------------------

const metadata = new MetadataProvider(connect(metadataPort), { distinctSnapLen: 3 }, credentials, 1000);
const all = { raw: true, merge: true, distinct: true, command: true };
const credits = (clientCode, clientMessage) => ['no', 'credits', { clientCode, clientMessage }];

metadata.on('init', (message, response) => {
  tell('metadata init', { parameters: message.parameters });
  response.success();
});
metadata.on('notifyUser', ({ userName: user, userPassword: password, headers }, response) => {
  tell('user', { user, password, request: headers.REQUEST_ID });
  if (user === 'nobody') return response.error('no access', 'access');
  if (user === 'poor') return response.error(...credits(-7, 'pay first'));
  if (user === 'crash') return response.error('a mistake');
  response.success(user === 'slow' ? 10 : 0, user !== 'quiet');
});
metadata.on('notifyNewSession', ({ userName: user, sessionId: session, contextProperties: context }, response) => {
  tell('session', { user, session, context });
  if (user === 'late') return response.error(...credits(-8, 'too late'));
  response.success();
});
metadata.on('notifySessionClose', ({ sessionId: session }, response) => {
  tell('session closed', { session });
  response.success();
});
metadata.on('getItems', ({ groupName: group }, response) => {
  if (group === 'none') return response.error('no such group', 'items');
  response.success(group === 'both' ? ['one', 'two'] : group.split(' '));
});
metadata.on('getSchema', ({ schemaName: schema }, response) => {
  if (schema === 'none') return response.error('no such schema', 'schema');
  response.success(schema.split(' '));
});
metadata.on('getItemData', ({ itemNames }, response) => {
  const raw = { raw: true, merge: false, distinct: false, command: false };
  response.success(itemNames.map((item) => (
    { distinctSnapLen: 3, minSourceFreq: 0, allowedModes: item === 'rawonly' ? raw : all })));
});
metadata.on('getUserItemData', ({ itemNames }, response) => {
  response.success(itemNames.map((item) => (
    { allowedBufferSize: 0, allowedMaxItemFreq: item === 'limited' ? 2 : 0, allowedModes: all })));
});

function tellTables(event, { sessionId: session, tableInfos }) {
  tableInfos.forEach((table) => tell(event, { session, number: table.winIndex, group: table.groupName }));
}
metadata.on('notifyNewTables', (message, response) => {
  tellTables('tables', message);
  if (message.tableInfos[0].groupName === 'forbidden') return response.error(...credits(-9, 'not for you'));
  response.success();
});
metadata.on('notifyTablesClose', (message, response) => {
  tellTables('tables closed', message);
  response.success();
});

function deviceFacts({ mpnPlatformType, applicationId: application, deviceToken: token }) {
  return { platform: { A: 'Apple', G: 'Google' }[mpnPlatformType], application, token };
}
metadata.on('notifyMpnDeviceAccess', ({ userName: user, sessionId: session, device }, response) => {
  tell('device', { user, session, ...deviceFacts(device) });
  if (device.applicationId === 'poor') return response.error(...credits(-11, 'no devices'));
  if (device.applicationId === 'unheard') return response.error('not heard', 'notification');
  if (device.applicationId === 'crash') return response.error('a mistake');
  response.success();
});
metadata.on('notifyMpnDeviceTokenChange', ({ sessionId: session, device, newDeviceToken }, response) => {
  tell('new token', { session, new: newDeviceToken, ...deviceFacts(device) });
  if (newDeviceToken === 'stolen') return response.error(...credits(-12, 'not yours'));
  response.success();
});
metadata.on('notifyMpnSubscriptionActivation', ({ sessionId: session, tableInfo, mpnSubscription }, response) => {
  const { groupName: group, schemaName: schema, pubModes } = tableInfo;
  const mode = Object.keys(pubModes).find((each) => pubModes[each]).toUpperCase();
  const { trigger, notificationFormat: format, device } = mpnSubscription;
  tell('push', { session, group, schema, mode, trigger, format, ...deviceFacts(device) });
  if (group === 'silent') return response.error(...credits(-13, 'not by push'));
  response.success();
});

metadata.on('notifyUserMessage', ({ sessionId: session, userMessage: text }, response) => {
  tell('message', { session, text });
  if (text === 'rude') return response.error(...credits(-3, 'mind your words'));
  if (text === 'unheard') return response.error('not heard', 'notification');
  if (text === 'crash') return response.error('a mistake');
  response.success();
});
