import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { chatEndpoint } from '../../../api/operations/blame/chat-endpoint.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import {
  type AnnotationResult,
  annotateHandler,
  failedEpisodes,
} from '../../../store/evaluate/attribution/annotate.ts';
import { evaluateModes } from '../../../store/evaluate/attribution/evaluate.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { type Asked, type Endpoint, type Reply, startEndpoint } from './support/endpoint.ts';
import { lostRun } from './support/lost-runs.ts';

const WORKER = JSON.stringify({ agent: 'worker', entry: 2, reason: 'It guessed.' });

describe('annotation by a judge model', () => {
  let fresh: TestDatabase;
  let endpoint: Endpoint | undefined;
  let pauses: number[];
  let stop: AbortController;
  let test = 0;
  let mine: string[];
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.close());
  beforeEach(() => {
    test++;
    mine = [];
    pauses = [];
    stop = new AbortController();
  });
  afterEach(() => endpoint?.stop());
  /** Runs that failed, under ids that no other test has. */
  const lost = async (
    names: string,
    ...how: Parameters<typeof lostRun> extends [string, ...infer Rest] ? Rest : never
  ) => {
    const ids = [...names].map((name) => `${name}-${test}`);
    mine.push(...ids);
    await postgresLog(fresh.db).append(ids.flatMap((id) => lostRun(id, ...how)));
    await projectAll(fresh.db);
    return ids;
  };
  const answers = async (reply: (asked: Asked, nth: number) => Reply) => {
    await endpoint?.stop();
    endpoint = await startEndpoint(reply);
  };
  /** One job, done here and now; pauses are noted and not waited for. */
  const annotate = async (spec: Readonly<Record<string, unknown>> = {}): Promise<AnnotationResult> => {
    const handler = annotateHandler(
      { db: fresh.db, log: postgresLog(fresh.db), now: () => new Date(Date.UTC(2026, 10, 1)) },
      {
        askOf: (asked) => chatEndpoint(asked, { JUDGE_KEY: 'sk-never-written' }),
        wait: async (ms) => void pauses.push(ms),
        signal: stop.signal,
        caughtUp: projectAll,
      },
    );
    const full = {
      model: 'judge-1',
      method: 'who-and-when',
      endpoint: endpoint!.url,
      concurrency: 1,
      episodes: mine,
      ...spec,
    };
    const job = { job_id: 'j', kind: 'annotate', spec: full, token: 1 };
    const result = await handler(job, async () => {}, new AbortController().signal);
    await projectAll(fresh.db);
    return result as AnnotationResult;
  };
  const recorded = async () =>
    (
      await fresh.db.query(
        `select episode_id, target_kind, target_id, entry, kind, name, label, annotator, author as "by", taxonomy, explanation, flags, unmapped, value_json
         from facts.feedback where author = 'model' and episode_id = any($1) order by key, feedback_id`,
        [mine],
      )
    ).rows;

  it('records agent, entry, reason, its author, the digest of the prompt, and what it cost', async () => {
    await lost('a');
    await answers(() => WORKER);
    expect(await annotate()).toEqual({
      episodes: 1,
      cached: 0,
      annotated: 1,
      refused: 0,
      failed: 0,
      stopped: null,
      usage: { calls: 1, input_tokens: 100, output_tokens: 10 },
    });
    expect(await recorded()).toMatchObject([
      {
        target_kind: 'agent',
        target_id: 'worker',
        entry: 2,
        kind: 'failure',
        name: 'mistake',
        annotator: 'judge-1',
        by: 'model',
        taxonomy: { name: 'who-when', version: '1' },
        explanation: 'It guessed.',
        unmapped: { method: 'who-and-when', prompt_version: 1, with_reference: false, usage: { calls: 1 } },
      },
    ]);
    expect(endpoint!.asked[0]!.messages[1]!.content).toContain('[2] worker:');
    expect(endpoint!.asked[0]!.messages[1]!.content).not.toContain('17');
  });

  it('shows the right answer only where asked to', async () => {
    await lost('a');
    await answers(() => WORKER);
    await annotate({ with_reference: true });
    expect(endpoint!.asked[0]!.messages[1]!.content).toContain('Right answer:\n17');
  });

  it('asks only about what failed, and never the same twice: what is recorded is the cache', async () => {
    const failed = await lost('ab');
    const won = await lost('w', { outcome: 'success' });
    mine = failed;
    const all = await failedEpisodes(fresh.db);
    expect(all).toEqual(expect.arrayContaining(failed));
    expect(all).not.toContain(won[0]);
    await answers(() => WORKER);
    expect(await annotate()).toMatchObject({ episodes: 2, annotated: 2 });
    expect(await annotate()).toMatchObject({ episodes: 2, annotated: 0, cached: 2, usage: { calls: 0 } });
    expect(await recorded()).toHaveLength(2);
    expect(await annotate({ model: 'judge-2' })).toMatchObject({ annotated: 2 });
    expect(await recorded()).toHaveLength(4);
  });

  it('asks again once where the answer is not the JSON that was asked for, and says why', async () => {
    await lost('a');
    await answers((_, nth) => (nth === 0 ? 'I think it was the worker.' : `\`\`\`json\n${WORKER}\n\`\`\``));
    expect(await annotate()).toMatchObject({ annotated: 1, refused: 0, usage: { calls: 2 } });
    const [, , , repair] = endpoint!.asked[1]!.messages;
    expect(repair!.content).toContain('it is not JSON');
  });

  it.each([
    ['words', 'no idea'],
    ['a name that nobody has', JSON.stringify({ agent: 'nobody', entry: 2 })],
    ['an entry of the user', JSON.stringify({ agent: 'worker', entry: 0 })],
    ['a list', '[]'],
    ['null', 'null'],
  ])('records that there is no answer after two bad ones (%s), and does not ask a third time', async (_, reply) => {
    await lost('a');
    await answers(() => reply);
    expect(await annotate()).toMatchObject({ annotated: 1, refused: 1, usage: { calls: 2 } });
    expect(await recorded()).toMatchObject([
      {
        target_kind: 'episode',
        label: 'refused',
        flags: ['malformed_answer'],
        unmapped: { reason: 'malformed_answer' },
      },
    ]);
    expect(await annotate()).toMatchObject({ cached: 1, usage: { calls: 0 } });
  });

  it('waits as long as the endpoint asks for, else longer each time', async () => {
    await lost('a');
    await answers((_, nth) => [{ status: 429, retryAfter: '7' }, 503, 500, WORKER][nth] as Reply);
    expect(await annotate()).toMatchObject({ annotated: 1, usage: { calls: 4 } });
    expect(pauses).toEqual([7000, 1000, 2000]);
  });

  it('gives up on an endpoint that fails for ever, records nothing, and asks again next time', async () => {
    await lost('abcde');
    await answers(() => 500);
    expect(await annotate()).toMatchObject({ annotated: 0, failed: 3, stopped: 'status_500' });
    expect(endpoint!.asked).toHaveLength(15);
    expect(await recorded()).toEqual([]);
    await answers(() => WORKER);
    expect(await annotate()).toMatchObject({ annotated: 5, cached: 0, stopped: null });
  });

  it('stops at once where the endpoint refuses the request itself', async () => {
    await lost('ab');
    await answers(() => 401);
    expect(await annotate()).toMatchObject({ annotated: 0, failed: 0, stopped: 'endpoint_answered_401' });
    expect(endpoint!.asked).toHaveLength(1);
  });

  it('never makes more calls than it may, stops cleanly, and goes on with the rest', async () => {
    await lost('abcde');
    await answers(() => WORKER);
    expect(await annotate({ max_calls: 3, concurrency: 4 })).toMatchObject({ annotated: 3, stopped: 'max_calls' });
    expect(endpoint!.asked).toHaveLength(3);
    expect(await annotate({ max_tokens: 110 })).toMatchObject({ annotated: 1, stopped: 'max_tokens' });
    expect(await annotate()).toMatchObject({ annotated: 1, cached: 4, stopped: null });
    expect(endpoint!.asked).toHaveLength(5);
  });

  it('ends soon after it is cancelled, keeps what was answered, and goes on with the rest', async () => {
    await lost('abc');
    await answers((_, nth) => {
      if (nth === 0) return WORKER;
      stop.abort();
      return 'hang';
    });
    expect(await annotate()).toMatchObject({ annotated: 1, failed: 0, stopped: 'interrupted' });
    stop = new AbortController();
    await answers(() => WORKER);
    expect(await annotate()).toMatchObject({ annotated: 2, cached: 1, stopped: null });
    expect(await recorded()).toHaveLength(3);
  });

  it('sends the key of the environment and writes it nowhere', async () => {
    await lost('a');
    await answers(() => WORKER);
    await annotate({ key_env: 'JUDGE_KEY' });
    expect(endpoint!.asked[0]!.headers.authorization).toBe('Bearer sk-never-written');
    const { rows } = await fresh.db.query(
      "select count(*) filter (where e::text like '%never-written%') as keys, count(*) as all from troupe.events e",
    );
    expect(rows[0]).toMatchObject({ keys: 0 });
    expect(Number(rows[0]!.all)).toBeGreaterThan(0);
    await expect(annotate({ key_env: 'OTHER_KEY' })).rejects.toThrow('key_env names OTHER_KEY, which is not set');
  });

  it('cuts a long conversation, the longest entries first, and says in the record what was left out', async () => {
    await lost('a');
    await answers(() => WORKER);
    await lost('b', { answer: `The city has 12 bridges${'!'.repeat(400)}` });
    await annotate({ conversation_tokens: 100 });
    const asked = endpoint!.asked.map(({ messages }) => messages[1]!.content);
    expect(asked.filter((text) => text.includes('characters left out'))).toHaveLength(1);
    const cuts = (await recorded()).map(({ unmapped }) => (unmapped as { cut?: object }).cut);
    expect(cuts).toContainEqual({ rule: 'longest_first', entries: 1, characters: expect.any(Number) });
    expect(cuts).toContain(undefined);
  });

  it('entry by entry: the first that is called a mistake is it; where none is, that is the record', async () => {
    await lost('a');
    await answers(({ messages }) =>
      JSON.stringify({ mistake: messages[1]!.content.includes('up to entry 4'), reason: 'r' }),
    );
    expect(await annotate({ method: 'who-and-when-step-by-step' })).toMatchObject({ usage: { calls: 3 } });
    expect(await recorded()).toMatchObject([{ target_id: 'lead', entry: 4 }]);
    await answers(() => JSON.stringify({ mistake: false }));
    await annotate({ method: 'who-and-when-step-by-step', model: 'judge-2' });
    expect(await recorded()).toContainEqual(expect.objectContaining({ flags: ['no_mistake_found'] }));
  });

  it('by halving: log2 of the entries of agents many questions, down to one', async () => {
    await lost('a');
    await answers((_, nth) => JSON.stringify({ half: nth === 0 ? 'first' : 'second' }));
    expect(await annotate({ method: 'who-and-when-binary-search' })).toMatchObject({ usage: { calls: 2 } });
    expect(await recorded()).toMatchObject([{ target_id: 'worker', entry: 2 }]);
  });

  it('names the step where the source counts no entries', async () => {
    await lost('a', {}, null);
    await lost('b', {}, 1_789_003_002_000_000);
    await answers(() => WORKER);
    await annotate();
    const step = { target_kind: 'step', target_id: 'c2/0', entry: null };
    expect(await recorded()).toMatchObject([step, step]);
  });

  it('MAST: modes of each annotator, and how far two agree', async () => {
    await lost('ab');
    const modes = (...codes: string[]) => JSON.stringify({ modes: codes, reason: 'r' });
    await answers(() => modes('FM-3.2', '1.3'));
    await annotate({ method: 'mast' });
    await answers((_, nth) => (nth === 0 ? modes('1.3', '3.2') : nth === 1 ? modes('9.9') : modes()));
    expect(await annotate({ method: 'mast', model: 'judge-2' })).toMatchObject({ annotated: 2, refused: 0 });
    expect((await recorded())[0]).toMatchObject({ kind: 'label', name: 'mast', value_json: ['1.3', '3.2'] });
    const { annotators, agreement } = await evaluateModes(fresh.db);
    expect(annotators).toMatchObject([
      { annotator: 'judge-1', episodes: 2, modes: { 1.3: 2, 3.2: 2 } },
      { annotator: 'judge-2', episodes: 2, modes: { 1.3: 1, 3.2: 1 } },
    ]);
    // 28 cells: both yes 2, one yes 2, both no 24. Observed 26/28, by chance (4 · 2 + 24 · 26) / 28².
    const [observed, chance] = [26 / 28, (4 * 2 + 24 * 26) / 28 ** 2];
    expect(agreement[0]).toMatchObject({ a: 'judge-1', b: 'judge-2', episodes: 2 });
    expect(agreement[0]!.kappa).toBeCloseTo((observed - chance) / (1 - chance), 12);
  });

  it('refuses a job whose spec does not fit, by its field', async () => {
    await lost('a');
    await answers(() => WORKER);
    await expect(annotate({ method: 'astrology' })).rejects.toMatchObject({ code: 'usage' });
    await expect(annotate({ episodes: ['no-such'] })).rejects.toMatchObject({ code: 'not_found' });
  });
});
