// Writes one episode to a topic with a client that is not Troupe's: arguments are the brokers, the topic and the episode's id.
// Half of the events go in binary mode, with CloudEvents attributes as headers; the other half in structured mode, as envelopes.
import { Producer, stringSerializers } from '@platformatic/kafka';

const [broker, topic, episode] = process.argv.slice(2);
const events = [
  ['task.defined', { task_id: `${episode}-task`, query: 'What is 6 times 7?', ground_truth: '42' }],
  ['episode.started', { episode_id: episode, task_id: `${episode}-task` }],
  ['agent.defined', { episode_id: episode, agent_id: 'outsider', name: 'Outsider', role: 'solver' }],
  [
    'generation.requested',
    { episode_id: episode, call_id: 'c1', agent_id: 'outsider', input: [{ role: 'user', content: '6·7?' }] },
  ],
  [
    'generation.completed',
    { episode_id: episode, call_id: 'c1', agent_id: 'outsider', choices: [{ index: 0, content: '42' }] },
  ],
  ['episode.finished', { episode_id: episode, outcome: 'success' }],
];
const messages = events.map(([name, data], i) => {
  const attributes = { specversion: '1.0', id: `${episode}-${i}`, source: '/outside', type: `troupe.${name}.v1` };
  const key = `e/${episode}`;
  if (i % 2 === 0) {
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([attribute, value]) => [`ce_${attribute}`, value]),
    );
    return { topic, key, value: JSON.stringify(data), headers: { ...headers, 'content-type': 'application/json' } };
  }
  const headers = { 'content-type': 'application/cloudevents+json; charset=UTF-8' };
  return { topic, key, value: JSON.stringify({ ...attributes, data }), headers };
});
const { KAFKA_TLS, KAFKA_SASL_MECHANISM: mechanism, KAFKA_USERNAME: username, KAFKA_PASSWORD: password } = process.env;
const producer = new Producer({
  clientId: 'outsider',
  bootstrapBrokers: broker.split(','),
  serializers: stringSerializers,
  ...(KAFKA_TLS === 'on' ? { tls: {} } : {}),
  ...(mechanism ? { sasl: { mechanism: mechanism.toUpperCase(), username, password } } : {}),
});
await producer.send({ messages, acks: -1 });
await producer.close();
