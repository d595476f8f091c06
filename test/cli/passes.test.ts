import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { saveCheckpointAt } from '../../trainer/model/checkpoints/checkpoint.ts';
import { openModel } from '../../trainer/model/model-directory.ts';
import { withScoreHead } from '../../trainer/model/parameters.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { tinyContents } from '../trainer/tiny-checkpoint.ts';
import { lines } from './support/chats.ts';
import { plays } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('forward passes over recorded steps, by commands alone', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const run = async (code: number, ...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    expect([args[0], ended.code, ended.err]).toEqual([args[0], code, expect.any(String)]);
    return document(ended);
  };
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    const silent = {
      specversion: '1.0',
      type: 'troupe.generation.completed.v1',
      source: '/made-up',
      id: 'silent',
      data: { episode_id: 'play-0-0', call_id: 'silent', choices: [{ index: 0, content: 'text without tokens' }] },
    };
    writeFileSync(path('plays.jsonl'), lines([...plays(2), silent]));
    await run(0, 'import', path('plays.jsonl'));
    const model = tinyContents(0);
    await saveCheckpointAt(path('model'), model);
    const { config, weights } = withScoreHead(model.config, model.weights, 'value', { seed: 5 });
    await saveCheckpointAt(path('critic'), { ...model, config, weights, optimizer: null });
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });
  const passes = async () =>
    (
      await database.db.query<{ id: string; data: Record<string, unknown> }>(
        `select id, data from troupe.events where source = '/passes' order by id`,
      )
    ).rows;

  it('logprobs --episodes prints what the model says, refuses a step without token ids, and records nothing', async () => {
    const answer = await run(3, 'logprobs', '--model', path('model'), '--episodes', 'play-0-1, play-0-0');
    expect(answer).toMatchObject({
      checkpoint_id: (await openModel(path('model'))).id,
      pass: 'reference',
      episodes: 2,
      steps: 2,
      tokens: 4,
      refused: { steps: 1, reasons: { no_token_ids: 1 }, examples: [{ step_id: 'silent/0', episode_id: 'play-0-0' }] },
    });
    expect(answer.rows.map((row: { step_id: string }) => row.step_id)).toEqual(['play-0-0-call/0', 'play-0-1-call/0']);
    for (const { logprobs } of answer.rows) {
      expect(logprobs).toHaveLength(2);
      for (const logprob of logprobs) expect(logprob).toBeLessThan(0);
    }
    expect(await passes()).toEqual([]);
  });

  it('values --record appends them once, and the judge gives credit by them', async () => {
    const which = '{"field":"reward","op":">","value":0}';
    const asked = ['values', '--model', path('critic'), '--episodes', which, '--record'];
    expect(await run(3, ...asked)).toMatchObject({ pass: 'values', steps: 4, recorded: 4, known: 0, tokens: 8 });
    const recorded = await passes();
    expect(recorded).toHaveLength(4);
    expect(recorded[0]!.data).toMatchObject({
      target: { kind: 'step', id: expect.stringMatching(/^play-\d-[02]-call\/0$/) },
      name: 'token_values',
      label: 'values',
      annotator: (await openModel(path('critic'))).id,
      value: [expect.any(Number), expect.any(Number)],
    });
    expect(await run(3, ...asked)).toMatchObject({ recorded: 0, known: 4, tokens: 0 });
    expect(await passes()).toEqual(recorded);

    await run(0, 'judge', '--methods', 'gae', '--episode', 'play-1-0');
    const { rows } = await database.db.query<{ value: number; detail: { advantages: number[] } }>(
      "select value, detail from traj.credits where step_id = 'play-1-0-call/0'",
    );
    const { data } = recorded.find(({ data: { target } }) => (target as { id: string }).id === 'play-1-0-call/0')!;
    const [first, second] = data.value as number[];
    expect(rows[0]!.detail.advantages[0]).toBeCloseTo(1 - first!, 12);
    expect(rows[0]!.value).toBeCloseTo(1 - (first! + second!) / 2, 12);
  });

  it('ask the model for what it can say, and people for what they mean', async () => {
    const model = ['--model', path('model')];
    const asked: [number, string, ...string[]][] = [
      [1, 'model_unsupported', 'values', ...model, '--episodes', 'play-1-0'],
      [1, 'not_found', 'logprobs', ...model, '--episodes', 'nobody'],
      [2, 'usage', 'logprobs', ...model, '--data', 'rows.jsonl', '--record'],
    ];
    const answers = await Promise.all(asked.map(([code, , ...args]) => run(code, ...args)));
    expect(answers.map(({ error }) => error.code)).toEqual(asked.map(([, code]) => code));
  });
});
