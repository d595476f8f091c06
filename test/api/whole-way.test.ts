/** From a completion over HTTP to a sampling process and back, and from its record to the tables: nothing is stood in for. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildApp } from '../../api/app.ts';
import { openKeyRing } from '../../api/key-ring.ts';
import { registeredPolicyServers } from '../../api/policy-servers.ts';
import { serve } from '../../api/serve.ts';
import { fileArtifacts } from '../../ingest/artifacts.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { registerProcess } from '../../store/jobs/processes.ts';
import { projectBatch } from '../../store/projecting/projector.ts';
import { type SavedCheckpoint, saveCheckpoint } from '../../trainer/checkpoints/checkpoint.ts';
import { startInfer } from '../../trainer/sampling/infer.ts';
import { connectInfer } from '../../trainer/sampling/infer-client.ts';
import { Policy } from '../../trainer/sampling/policy.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { tinyContents } from '../trainer/tiny-checkpoint.ts';

let root: string;
let database: TestDatabase;
let checkpoint: SavedCheckpoint;
let url: string;
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-api-'));
  database = await freshDatabase();
  const { db } = database;
  checkpoint = await saveCheckpoint(root, tinyContents(1), { durable: false });
  const socket = join(root, 'infer.sock');
  const server = await startInfer({ socket, threads: 1 }, Policy.load);
  await server.load({ dir: checkpoint.dir, name: 'team' });
  const leave = await registerProcess(db, { processId: 'infer-1', role: 'infer', policy: 'team', address: socket });
  const policyServers = registeredPolicyServers(db, connectInfer);
  const app = await buildApp({
    db,
    log: postgresLog(db),
    book: postgresBook(db),
    artifacts: fileArtifacts(join(root, 'artifacts')),
    policyServers,
    keys: openKeyRing(db),
    project: 'test',
    version: '0.0.0',
  });
  const listening = await serve(app, { host: '127.0.0.1', port: 0 });
  url = listening.url;
  ends.push(
    listening.close,
    leave,
    async () => policyServers.close(),
    () => server.close(),
    database.close,
  );
});
afterAll(async () => {
  for (const end of ends) await end();
  await rm(root, { recursive: true, force: true });
});

type Answer = {
  readonly choices: readonly {
    readonly index: number;
    readonly token_ids: number[];
    readonly message: { readonly content: string };
  }[];
  readonly prompt_token_ids: number[];
  readonly troupe: { readonly call_id: string; readonly step_ids: string[] };
};

const complete = async (model: string, seed: number) => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'troupe-episode': 'whole', 'troupe-agent': 'solver' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'one two' }], n: 4, seed, max_tokens: 6 }),
  });
  return {
    status: response.status,
    recorded: response.headers.get('troupe-recorded'),
    body: (await response.json()) as Answer,
  };
};

describe('a completion, the whole way', () => {
  it('is spoken by the policy, can be repeated by its seed, and stands in the tables as it was said', async () => {
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(models.data.map(({ id }) => id)).toEqual([`checkpoint:${checkpoint.id}`, 'policy:team']);

    const first = await complete('policy:team', 3);
    expect([first.status, first.recorded]).toEqual([200, 'true']);
    const again = await complete(`checkpoint:${checkpoint.id}`, 3);
    const tokens = (answer: typeof first): number[][] => answer.body.choices.map((choice) => choice.token_ids);
    expect(tokens(again)).toEqual(tokens(first));
    expect(tokens(await complete('policy:team', 4))).not.toEqual(tokens(first));

    while ((await projectBatch(database.db)) > 0);
    const { rows } = await database.db.query(
      'select step_id, token_ids, text, checkpoint_id, prompt_token_ids, seed from traj.steps where call_id = $1 order by candidate',
      [first.body.troupe.call_id],
    );
    expect(rows).toEqual(
      first.body.choices.map((choice) => ({
        step_id: first.body.troupe.step_ids[choice.index],
        token_ids: choice.token_ids,
        text: choice.message.content,
        checkpoint_id: checkpoint.id,
        prompt_token_ids: first.body.prompt_token_ids,
        seed: 3,
      })),
    );
  });

  it.each([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'one '.repeat(200) }] }],
    ['/v1/messages', { max_tokens: 1, messages: [{ role: 'user', content: 'one '.repeat(200) }] }],
    ['/v1/responses', { input: 'one '.repeat(200) }],
  ])(
    'a prompt that is too long is refused at %s in the words that clients know, and not recorded',
    async (path, body) => {
      const response = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'troupe-episode': 'too-long' },
        body: JSON.stringify({ model: 'policy:team', ...body }),
      });
      const { code, error } = (await response.json()) as { code: string; error: { message: string; code?: string } };
      expect([response.status, code]).toEqual([400, 'context_length_exceeded']);
      expect(error.message).toMatch(/prompt is too long: \d+ tokens > \d+ maximum/);
      expect(error.message).toMatch(/This model's maximum context length is \d+ tokens/);
      if (path !== '/v1/messages') expect(error.code).toBe('context_length_exceeded');
      const { rows } = await database.db.query("select 1 from troupe.events where key = 'e/too-long'");
      expect(rows).toEqual([]);
    },
  );
});
