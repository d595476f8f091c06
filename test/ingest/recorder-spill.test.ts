import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createRecorder, type RecorderOptions } from '../../ingest/recorder/recorder.ts';
import { type TestApp, testApp } from '../api/support/app.ts';
import { builtProgram } from '../cli/support/built.ts';

/** As programs import it. */
const RECORDER = join(dirname(builtProgram), 'ingest/recorder/recorder.js');
const NOBODY = 'http://127.0.0.1:9';

describe('a recorder with a spill folder', () => {
  let server: TestApp;
  let url: string;
  let dir: string;
  beforeAll(async () => {
    server = await testApp();
    url = await (server.app as FastifyInstance).listen({ port: 0 });
  });
  afterAll(() => server.close());
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'troupe-spill-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  const recorder = (baseUrl: string, options: Partial<RecorderOptions> = {}) =>
    createRecorder({ baseUrl, source: '/spill', pause: 1, tries: 2, spill: dir, ...options });
  const files = (ending = '.ndjson') => readdirSync(dir).filter((name) => name.endsWith(ending));
  const startedBy = async (prefix: string): Promise<string[]> => {
    const { rows } = await server.db.query<{ id: string }>(
      `select id from troupe.events where name = 'episode.started' and id like $1 order by id`,
      [`${prefix}%`],
    );
    return rows.map(({ id }) => id);
  };

  it('keeps on disk what the server cannot take, and the next one sends it first', async () => {
    const first = recorder(NOBODY, { batchSize: 2 });
    for (const n of [1, 2, 3]) first.episode({ episode_id: `a${n}` });
    const { sent, spilled } = await first.flush();
    expect({ sent, spilled }).toEqual({ sent: 0, spilled: 3 });
    const second = recorder(url);
    second.finish({ episode_id: 'a3', outcome: 'success' });
    expect(await second.flush()).toEqual({ sent: 4, accepted: 4, duplicates: 0, spilled: 0, damaged: 0 });
    expect(await startedBy('a')).toEqual(['a1/started', 'a2/started', 'a3/started']);
    expect(files()).toEqual([]);
  });

  it('loses nothing that it reported as kept to kill -9, and nothing arrives twice', async () => {
    const program = join(dir, 'program.mjs');
    writeFileSync(
      program,
      `import { createRecorder } from ${JSON.stringify(RECORDER)};
      const { episode, flush } = createRecorder({ baseUrl: ${JSON.stringify(NOBODY)}, source: '/spill', pause: 1, tries: 1, spill: ${JSON.stringify(dir)} });
      for (let n = 0; ; n++) {
        episode({ episode_id: 'k' + n });
        await flush();
        console.log('k' + n + '/started');
      }`,
    );
    const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      if (printed.split('\n').length > 20) child.kill('SIGKILL');
    });
    await once(child, 'close');
    const kept = printed
      .split('\n')
      .slice(0, -1)
      .filter((line) => line !== '');
    expect(kept.length).toBeGreaterThanOrEqual(20);
    // Two processes start at once over the same folder.
    const both = [recorder(url), recorder(url)];
    const [a, b] = await Promise.all(both.map((one) => one.flush()));
    expect(a!.accepted + b!.accepted).toBeGreaterThanOrEqual(kept.length);
    expect(await startedBy('k')).toEqual(expect.arrayContaining(kept));
    expect((await startedBy('k')).length).toBe(a!.accepted + b!.accepted);
    expect(files()).toEqual([]);
  });

  it('P53: a damaged file does not stop the start: it is moved aside, counted, and the others are sent', async () => {
    for (const id of ['d1', 'd2']) {
      const one = recorder(NOBODY);
      one.episode({ episode_id: id });
      await one.flush();
    }
    const [first] = files().sort();
    const path = join(dir, first!);
    writeFileSync(path, readFileSync(path, 'utf8').replace('episode_id', 'episode_ix'));
    const { accepted, damaged } = await recorder(url).flush();
    expect({ accepted, damaged }).toEqual({ accepted: 1, damaged: 1 });
    expect(await startedBy('d')).toEqual(['d2/started']);
    expect(files('.damaged')).toEqual([`${first}.damaged`]);
  });

  it('holds no more than its bound: beyond it nothing is reported as kept, and nothing is lost', async () => {
    const one = recorder(NOBODY, { spillBytes: 400 });
    one.episode({ episode_id: 'b1' });
    await one.flush();
    one.episode({ episode_id: 'b2', tags: { long: 'x'.repeat(400) } });
    await expect(one.flush()).rejects.toThrow(/took none of 1 events/);
    expect(files()).toHaveLength(1);
  });

  it('a program that ends sends what is left; one that exits at once writes it down', async () => {
    const program = (at: string, id: string, end: string) => {
      const path = join(dir, `${id}.mjs`);
      writeFileSync(
        path,
        `import { createRecorder } from ${JSON.stringify(RECORDER)};
        createRecorder({ baseUrl: ${JSON.stringify(at)}, source: '/spill', spill: ${JSON.stringify(dir)} }).episode({ episode_id: '${id}' });
        ${end}`,
      );
      return once(spawn(process.execPath, [path], { stdio: 'inherit' }), 'close');
    };
    await program(url, 'x1', '');
    expect(await startedBy('x')).toEqual(['x1/started']);
    await program(NOBODY, 'x2', 'process.exit(0);');
    expect(files()).toHaveLength(1);
    await recorder(url).flush();
    expect(await startedBy('x')).toEqual(['x1/started', 'x2/started']);
  });

  it('says a model call with its candidates, a tool call and a decision as the tables show them', async () => {
    const one = recorder(url);
    one.episode({ episode_id: 'h' });
    one.agent({ episode_id: 'h', agent_id: 'solver', role: 'solver' });
    const call = one.step({
      episode_id: 'h',
      agent_id: 'solver',
      turn: 0,
      model: 'm1',
      input: [{ role: 'user', content: '6 times 7?' }],
      choices: ['41', { index: 1, content: '42', chosen: true }],
      usage: { input_tokens: 4, output_tokens: 2 },
    });
    one.toolCall({ episode_id: 'h', call_id: call, name: 'calc', arguments: { x: 6 }, status: 'ok', output: '42' });
    one.decision({ episode_id: 'h', by: 'solver', kind: 'stop', decision: 'enough' });
    await one.flush();
    await server.project();
    const { rows: steps } = await server.db.query(
      `select step_id, agent, role, text, chosen, model from traj.steps where episode_id = 'h' order by 1`,
    );
    expect(steps).toEqual([
      { step_id: `${call}/0`, agent: 'solver', role: 'solver', text: '41', chosen: null, model: 'm1' },
      { step_id: `${call}/1`, agent: 'solver', role: 'solver', text: '42', chosen: true, model: 'm1' },
    ]);
    const { rows: tools } = await server.db.query(
      `select name, status, call_id, output from traj.tool_calls where episode_id = 'h'`,
    );
    expect(tools).toEqual([{ name: 'calc', status: 'ok', call_id: call, output: '42' }]);
    const { rows: decisions } = await server.db.query(`select "by", kind from traj.decisions where episode_id = 'h'`);
    expect(decisions).toEqual([{ by: 'solver', kind: 'stop' }]);
  });
});
