// A gRPC SimpleConsumer; programs.py has its words and what it prints.
import { createRequire } from 'node:module';

const { SimpleConsumer, FilterExpression } = createRequire(import.meta.url)('rocketmq-client-nodejs');
const [endpoints, , consumerGroup, topic, kind, expression, wanted, milliseconds, kept] =
  process.argv.slice(2);
const TAG = 1;
const SQL = 2; // FilterType of the protocol, which the package does not export

const consumer = new SimpleConsumer({
  endpoints,
  consumerGroup,
  namespace: '',
  requestTimeout: 20_000,
  awaitDuration: 2000,
  subscriptions: new Map([[topic, new FilterExpression(expression, kind === 'sql' ? SQL : TAG)]]),
  logger: { info() {}, debug() {}, warn: console.error, error: console.error },
});
await consumer.startup();
const end = Date.now() + Number(milliseconds);
let left = Number(wanted);
// long enough for a busy machine, where nothing is to come again
const invisible = kept === '-' ? 60_000 : 15_000;

// Calls again where the Proxy is busy.
async function patiently(call) {
  for (let tries = 0; tries < 5; tries += 1) {
    try {
      return await call();
    } catch (error) {
      console.error(error);
      await new Promise((done) => setTimeout(done, 500));
    }
  }
  return [];
}

while (left > 0 && Date.now() < end) {
  for (const message of await patiently(() => consumer.receive(32, invisible))) {
    const keys = [...message.keys].sort();
    const words = [message.deliveryAttempt, message.messageId, keys, message.body.toString('hex')];
    process.stdout.write(words.join(' ') + '\n');
    left -= 1;
    if (message.deliveryAttempt > 2 || !keys.some((key) => key.endsWith(kept))) {
      await patiently(() => consumer.ack(message));
    }
  }
}
await consumer.shutdown();
process.exit(0);
