/** A gate that plays sums nobody trains on: the tasks, a team that answers them by one call, and a small model to begin with. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { lines } from './chats.ts';
import { plays, WORDS } from './plays.ts';
import type { Running, Shell } from './troupe.ts';

/** Asks the policy once, with the seed of the sample; the reward is 1 for the answer of the task. */
const TEAM = `
import { readFileSync } from 'node:fs';
const task = JSON.parse(readFileSync(process.env.TROUPE_TASK, 'utf8'));
const response = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'policy:solver', messages: [{ role: 'user', content: task.prompt }], max_tokens: 3, seed: Number(process.env.TROUPE_SEED) }),
});
if (!response.ok) throw new Error(response.status + ' ' + await response.text());
const { choices } = await response.json();
console.log(JSON.stringify({ reward: choices[0].message.content.trim() === task.answer ? 1 : 0 }));
`;

/** Questions like those of the recorded plays, under other ids. */
export const heldOut = (n: number): Record<string, unknown>[] =>
  Array.from({ length: n }, (_, i) => ({
    task_id: `held-${i}`,
    prompt: `what is ${WORDS[3 + (i % 3)]} plus ${WORDS[3 + (i % 2)]}`,
    answer: WORDS[3 + (i % 3) + (i % 2)],
    domain: i % 2 === 0 ? 'zero' : 'one',
  }));

/** Puts team, runner, tasks, recorded episodes and a model into the folder, and starts who answers. Returns the address of the API. */
export async function prepared(
  at: Shell,
  tasks: readonly object[],
): Promise<{ address: string; infer: Running; serve: Running }> {
  const path = (name: string) => join(at.folder, name);
  writeFileSync(path('team.mjs'), TEAM);
  const solver = { command: [process.execPath, path('team.mjs')], reward: 'stdout', retries: 1, concurrency: 2 };
  writeFileSync(path('troupe.yaml'), stringify({ runners: { solver } }));
  writeFileSync(path('plays.jsonl'), lines(plays(12)));
  writeFileSync(path('held-out.jsonl'), lines(tasks));
  const config = {
    ...{ words: WORDS, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 },
    ...{ num_key_value_heads: 2, max_position_embeddings: 32 },
  };
  writeFileSync(path('model.json'), JSON.stringify(config));
  for (const args of [
    ['import', path('plays.jsonl')],
    ['model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3'],
  ]) {
    const ended = await at.run([...args, '--quiet']);
    if (ended.code !== 0) throw new Error(ended.err);
  }
  const serve = at.start(['run', 'serve', '--port', '0', '--json']);
  const infer = at.start(['run', 'infer', '--policy', 'solver', '--model', path('model'), '--json']);
  const [output] = await Promise.all([serve.waitForOutput(/"address"/), infer.waitForOutput(/"role"/)]);
  return { address: /http:\/\/[0-9.:]+/.exec(output)![0], infer, serve };
}

/** A plan that learns the sums from the recorded plays, and whose gate plays the others. */
export const playPlan = (name: string, gate: object = {}, train: object = {}) => ({
  name,
  seed: 3,
  policies: {
    solver: {
      base: 'model',
      recipe: { roles: ['solver'], where: { field: 'reward', op: '>=', value: 1 } },
      train: { method: 'sft', steps: 120, batch: 8, learning_rate: 0.02, ...train },
    },
  },
  gate: { kind: 'play', runner: 'solver', tasks: 'held-out.jsonl', samples: 2, serving_within_s: 60, ...gate },
});
