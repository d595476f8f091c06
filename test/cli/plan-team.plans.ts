import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { document, type Shell, shell } from './support/troupe.ts';

/** Each episode starts a program. */
const SLOW = 400_000;
const EXAMPLE = join(import.meta.dirname, '../../examples/rollout');
const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** The peers of the example, and their model, as programs of their own. */
const PEERS = join(import.meta.dirname, '../../examples/peers');

/** A model that adds, but says the number in digits only where the prompt asks for it. */
function adder(): Promise<Server> {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const { messages } = JSON.parse(body) as { messages: { role: string; content: string }[] };
    const sum = messages
      .at(-1)!
      .content.match(/\d+/g)!
      .reduce((total, digits) => total + Number(digits), 0);
    const content = messages[0]!.content.includes('digits') ? String(sum) : 'as many as the fingers of some hands';
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        ...{ id: 'x', object: 'chat.completion', created: 1, model: 'tiny', usage },
        choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      }),
    );
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

describe('a plan whose candidate is a version of a team', () => {
  let database: TestDatabase;
  let at: Shell;
  let model: Server;
  let peersPort: number;
  let serving: Promise<string>;
  const troupe = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    return { code: ended.code, err: ended.err, out: ended.out === '' ? null : document(ended) };
  };
  const rows = async (text: string) => (await database.db.query<Record<string, unknown>>(text)).rows;
  const example = join(EXAMPLE, 'plans/prompt.yaml');
  /** The plan of the example with other versions. */
  const written = (name: string, team: object, gate: object = {}) => {
    const plan = parse(readFileSync(example, 'utf8'));
    const tasks = join(EXAMPLE, 'tasks.jsonl');
    const changed = { ...plan, name, team: { ...plan.team, ...team }, gate: { ...plan.gate, tasks, ...gate } };
    writeFileSync(join(at.folder, `${name}.yaml`), stringify(changed));
    return join(at.folder, `${name}.yaml`);
  };
  const [plain, digits] = ['plain', 'digits'].map((name) => join(EXAMPLE, `versions/${name}.yaml`)) as [string, string];

  beforeAll(async () => {
    database = await freshDatabase();
    model = await adder();
    at = shell({ DATABASE_URL: database.url });
    const { port } = model.address() as AddressInfo;
    peersPort = await freePort();
    const command = [process.execPath, '--import', loader, join(EXAMPLE, 'team.ts')];
    const settings = {
      upstreams: {
        tiny: { base_url: `http://127.0.0.1:${port}/v1`, models: ['tiny'] },
        peers: { base_url: `http://127.0.0.1:${peersPort}/v1`, models: ['peer'] },
      },
      runners: {
        solver: { command, reward: 'stdout', concurrency: 2 },
        pool: { workers: true },
        peers: { workers: true },
      },
    };
    writeFileSync(join(at.folder, 'troupe.yaml'), stringify(settings));
    serving = at.start(['run', 'serve', '--port', '0', '--json']).waitForOutput(/"address"/);
    await serving;
  }, SLOW);
  afterAll(async () => {
    at.remove();
    model.close();
    await database.close();
  });

  it(
    'the gate plays both versions, and the better one is released, recorded with its episodes, and rolled back',
    async () => {
      const checked = await troupe('plan', 'check', example);
      expect([checked.code, checked.out.problems]).toEqual([0, []]);
      const { candidate, incumbent } = checked.out.team;
      expect([candidate, incumbent]).toEqual([
        expect.stringMatching(/^solver@[0-9a-f]{16}$/),
        expect.stringMatching(/^solver@/),
      ]);
      const ran = await troupe('plan', 'run', example);
      expect([ran.err, ran.code, ran.out.released]).toEqual(['', 0, true]);
      expect(ran.out.rounds[0]).toMatchObject({
        candidates: {},
        teams: { solver: candidate },
        release_id: 'prompt-1/1',
      });
      const { out: report } = await troupe('gate', 'show', 'prompt-1');
      expect(report).toMatchObject({ outcome: 'better', models: { 'team solver': { incumbent, candidate } } });
      expect(report.main).toMatchObject({ incumbent: 0, candidate: 1, tasks: 6 });
      expect((await troupe('policies')).out).toMatchObject({ release_id: 'prompt-1/1', teams: { solver: candidate } });
      expect(await rows('select policy, checkpoint_id, team, team_id from traj.releases')).toEqual([
        { policy: null, checkpoint_id: null, team: 'solver', team_id: candidate },
      ]);
      // Its prompts are recorded, and each episode names the version that it was played by.
      expect(
        await rows(
          `select e.tags->>'side' as side, e.team_id, t.agents->0->>'prompt' as prompt, count(*)::integer as n, avg(reward) as reward
           from traj.episodes e join traj.teams t using (team_id) where e.tags->>'gate' = 'prompt-1/1/gate' group by 1, 2, 3 order by 1`,
        ),
      ).toEqual([
        { side: 'candidate', team_id: candidate, prompt: 'Answer with digits only.', n: 12, reward: 1 },
        { side: 'incumbent', team_id: incumbent, prompt: null, n: 12, reward: 0 },
      ]);

      const address = /http:\/\/[0-9.:]+/.exec(await serving)![0];
      const answer = await fetch(`${address}/v1/teams/solver`);
      expect([answer.status, await answer.json()]).toEqual([
        200,
        {
          ...{ team_id: candidate, name: 'solver' },
          definition: { agents: [{ name: 'solver', model: 'tiny', prompt: 'Answer with digits only.' }] },
        },
      ]);
      expect((await fetch(`${address}/v1/teams/nobody`)).status).toBe(404);
      const [lineage] = (await troupe('lineage', candidate)).out.found;
      expect([lineage.kind, lineage.led_to.children]).toEqual([
        'team version',
        [expect.objectContaining({ kind: 'release', id: 'prompt-1/1' })],
      ]);
      const again = await troupe('plan', 'run', example);
      expect([again.code, again.out.error.message]).toEqual([
        1,
        expect.stringContaining(`The candidate is ${candidate}`),
      ]);
      const worse = await troupe('plan', 'run', written('worse', { candidate: plain, base: plain }));
      expect([worse.code, worse.out.released]).toEqual([7, false]);
      expect((await troupe('gate', 'show', 'worse-1')).out.models['team solver']).toEqual({
        incumbent: candidate,
        candidate: incumbent,
      });

      const accepted = written('kept', { candidate: plain, base: plain }, { accept: 'not_worse', margin: 2 });
      expect((await troupe('plan', 'run', accepted)).code).toBe(0);
      expect((await troupe('policies')).out.teams).toEqual({ solver: incumbent });
      expect((await troupe('rollback')).out).toMatchObject({ back_to: 'prompt-1/1', teams: { solver: candidate } });
      expect((await troupe('policies')).out.teams).toEqual({ solver: candidate });
    },
    SLOW,
  );

  it(
    'refuses what a team version cannot be compared by, with the field',
    async () => {
      const refused = async (name: string, team: object, gate: object = {}) => {
        const { code, out } = await troupe(
          'plan',
          'check',
          written(name, { candidate: digits, base: plain, ...team }, gate),
        );
        return [code, out.error.field, out.error.message];
      };
      expect(await refused('reserved', { candidate: { team_id: 'x' } })).toEqual([
        2,
        'team.candidate',
        expect.stringContaining('should have no field team_id'),
      ]);
      expect(await refused('agents', { candidate: { agents: 'solver' } })).toEqual([
        2,
        'team.candidate',
        expect.stringContaining('agents of a team should be a list of objects'),
      ]);
      writeFileSync(join(at.folder, 'text.yaml'), 'only words');
      expect(await refused('words', { candidate: 'text.yaml' })).toEqual([
        2,
        'team.candidate',
        expect.stringContaining('should hold a version of a team as an object'),
      ]);
      const nothing = join(at.folder, 'nothing.yaml');
      writeFileSync(nothing, stringify({ name: 'nothing', gate: { kind: 'manual' } }));
      expect((await troupe('plan', 'check', nothing)).out.error.field).toBe('policies');
    },
    SLOW,
  );

  it(
    'leaves the member out that contributed least to what the team played, and compares the team without it',
    async () => {
      const address = /http:\/\/[0-9.:]+/.exec(await serving)![0];
      const programs = [
        ['model.ts', '--port', String(peersPort)],
        ['team.ts', '--url', address],
      ].map(([file, ...args]) =>
        spawn(process.execPath, ['--import', loader, join(PEERS, file!), ...args], { stdio: 'ignore' }),
      );
      try {
        const example = join(PEERS, 'plans/dylan.yaml');
        const written = (name: string, change: object) => {
          const plan = parse(readFileSync(example, 'utf8'));
          const tasks = { rollout: { ...plan.rollout, tasks: join(PEERS, 'sums.jsonl'), per_round: 8 } };
          const team = { ...plan.team, base: join(PEERS, 'versions/four.yaml') };
          const gate = { ...plan.gate, tasks: join(PEERS, 'held-out.jsonl'), samples: 1 };
          writeFileSync(join(at.folder, `${name}.yaml`), stringify({ ...plan, ...tasks, team, gate, name, ...change }));
          return join(at.folder, `${name}.yaml`);
        };
        const { team, judge } = parse(readFileSync(example, 'utf8'));
        for (const [change, field] of [
          [{ team: { ...team, candidate: { agents: [] } } }, 'team.candidate'],
          [{ judge: [{ method: 'dylan_consensus' }] }, 'team.prune.by'],
          [{ rollout: undefined }, 'rollout'],
          [{ team: { name: 'peers', candidate: { agents: [] } }, judge }, 'rollout'],
        ] as const)
          expect((await troupe('plan', 'check', written('refused', change))).out.error.field).toBe(field);
        const four = { ...team, base: join(PEERS, 'versions/four.yaml') };
        const all = written('all', { team: { ...four, prune: { ...team.prune, keep: 4 } } });
        expect((await troupe('plan', 'check', all)).out.problems).toEqual([
          'The team has 4 members, and team.prune.keep is 4: nothing is left to prune.',
        ]);
        const checked = await troupe('plan', 'check', written('dylan', {}));
        expect(checked.out).toMatchObject({
          ...{ stages: ['rollout', 'judge', 'prune', 'gate'], problems: [] },
          team: { name: 'peers', candidate: null, incumbent: expect.stringMatching(/^peers@/) },
        });
        const ran = await troupe('plan', 'run', written('dylan', {}));
        expect([ran.err, ran.out.rounds[0].rollout.groups]).toEqual(['', { complete: 8, partial: 0 }]);
        const [pruned] = await rows(`select result from traj.jobs where job_id = 'dylan-1/1/prune'`);
        const {
          removed,
          importance,
          episodes,
          team: candidate,
        } = pruned!.result as {
          readonly removed: readonly string[];
          readonly importance: Readonly<Record<string, number>>;
          readonly episodes: number;
          readonly team: {
            readonly team_id: string;
            readonly definition: { readonly agents: readonly { name: string }[] };
          };
        };
        expect([removed, episodes]).toEqual([['bob'], 16]);
        // Of each episode the importances of a round sum to 1, and there are two rounds.
        const total = Object.values(importance).reduce((sum, one) => sum + one, 0);
        expect(total).toBeCloseTo(2, 9);
        expect(candidate.definition.agents.map(({ name }) => name)).toEqual(['ada', 'cleo', 'dan']);
        expect(ran.out.rounds[0].teams).toEqual({ peers: candidate.team_id });
        expect((await at.run(['plan', 'show', 'dylan-1'])).out).toMatch(/1\/prune +prune +finished +done +without bob/);
        const { out: report } = await troupe('gate', 'show', 'dylan-1');
        expect(report.models['team peers']).toEqual({
          incumbent: checked.out.team.incumbent,
          candidate: candidate.team_id,
        });
      } finally {
        for (const program of programs) program.kill();
      }
    },
    SLOW,
  );

  it(
    'a person decides on a version, a rollout plays in the released one, and a canary gives it to a share of the episodes',
    async () => {
      const manual = written('asked', { name: 'readers', candidate: digits, base: undefined });
      writeFileSync(manual, stringify({ ...parse(readFileSync(manual, 'utf8')), gate: { kind: 'manual' } }));
      expect((await troupe('plan', 'check', manual)).out).toMatchObject({ problems: [] });
      const waits = await troupe('plan', 'run', manual);
      expect([waits.err, waits.code, waits.out]).toMatchObject(['', 7, { state: 'undecided' }]);
      const accepted = await troupe('gate', 'accept', 'asked-1', '--reason', 'reads well');
      expect([accepted.code, accepted.out.released]).toEqual([0, true]);
      const { teams } = (await troupe('policies')).out;
      expect(teams.readers).toMatch(/^readers@/);

      const roles = ['project', 'work'].map((role) => at.start(['run', role, '--json']));
      const address = /http:\/\/[0-9.:]+/.exec(await serving)![0];
      // Nobody leases its attempts: it holds up no other rollout.
      const waiting = { id: 'waiting', runner: 'pool', tasks: [{ task_id: 'a' }], samples: 1 };
      const headers = { 'content-type': 'application/json' };
      const posted = await fetch(`${address}/v1/rollouts`, { method: 'POST', headers, body: JSON.stringify(waiting) });
      expect(posted.status).toBe(200);
      const asked = ['rollout', '--runner', 'solver', '--tasks', join(EXAMPLE, 'tasks.jsonl'), '--samples', '1'];
      await expect
        .poll(async () => (await troupe(...asked, '--id', 'in-version', '--team', 'readers')).code, {
          timeout: 120_000,
          interval: 2000,
        })
        .toBe(0);
      expect(await rows(`select distinct team_id from traj.episodes where tags->>'rollout' = 'in-version'`)).toEqual([
        { team_id: teams.readers },
      ]);
      const nobody = await troupe(...asked, '--team', 'nobody');
      expect([nobody.code, nobody.out.error.message]).toEqual([
        1,
        expect.stringContaining('No version of a team nobody'),
      ]);

      writeFileSync(
        manual,
        stringify({
          ...parse(readFileSync(manual, 'utf8')),
          ...{ name: 'live', team: { name: 'readers', candidate: plain } },
          gate: { kind: 'canary', share: 0.5, metric: 'success' },
        }),
      );
      expect((await troupe('plan', 'check', manual)).out).toMatchObject({ problems: [] });
      expect((await troupe('plan', 'run', manual)).code).toBe(7);
      const versionOf = async (episode: string) =>
        ((await (await fetch(`${address}/v1/teams/readers${episode}`)).json()) as { team_id: string }).team_id;
      const seen = new Set<string>();
      for (let i = 0; i < 20; i++) seen.add(await versionOf(`?episode=e${i}`));
      expect(seen.size).toBe(2);
      expect(await versionOf('')).toBe(teams.readers);
      expect((await troupe('gate', 'show', 'live-1')).out).toMatchObject({
        canary: { state: 'running' },
        models: { 'team readers': { incumbent: teams.readers } },
      });
      expect((await troupe('gate', 'refuse', 'live-1', '--detach')).code).toBe(0);
      for (const { child } of roles) child.kill('SIGTERM');
      expect(await versionOf('?episode=e0')).toBe(teams.readers);
    },
    SLOW,
  );
});
