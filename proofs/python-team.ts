/**
 * Proof that a team of somebody else learns: the ten lines of docs/start.md as printed, except for two addresses that are free on this machine,
 * and for the night, which comes every minute and is not started by hand. The team is one Python file that knows no address but its base
 * URL; another model server answers it on Monday, the checkpoint of the night on Tuesday.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../test/support/free-port.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { until } from './up.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const [NIGHT, EVERY_MINUTE] = ['0 3 * * *', '* * * * *'];
const BY_HAND = 'npx troupe schedule run desk';
const SCRIPTED_PORT = '9917';
/** Gain in the share of tickets answered right that the night has to bring. */
const GAIN = 0.15;

export const proof: Proof = {
  name: 'python-team',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    if (spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']).status !== 0)
      return { ok: true, lines: [], skipped: ['no python3 of version 3.9 or later in PATH; install Python'] };
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const page = readFileSync(join(ROOT, 'docs/start.md'), 'utf8');
    const commands =
      /```\n(cp examples\/python-team[\s\S]*?)```/
        .exec(page)?.[1]
        ?.trim()
        .split('\n')
        .map((line) => line.replace(/\s+# .*$/, '')) ?? [];
    check('docs/start.md shows ten lines, one of them a night of every day', commands.length === 10, commands);

    symlinkSync(join(ROOT, 'examples'), join(scratch, 'examples'));
    const bin = join(scratch, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'npx'), `#!/bin/sh\nshift\nexec ${process.execPath} ${ROOT}/bin/troupe.js "$@"\n`);
    chmodSync(join(bin, 'npx'), 0o755);
    const [scripted, port] = [String(await freePort()), String(await freePort())];
    const { DATABASE_URL: _, KAFKA_BROKERS: __, ...rest } = process.env;
    const ours = { NO_COLOR: '1', PYTHONDONTWRITEBYTECODE: '1', TROUPE_PORT: port, PATH: `${bin}:${process.env.PATH}` };
    const options = { cwd: scratch, env: { ...rest, ...ours }, maxBuffer: 2 ** 26 };
    const shell = async (line: string) => (await run('sh', ['-ec', line], options)).stdout;
    const sql = async (query: string) =>
      JSON.parse((await run(join(bin, 'npx'), ['troupe', 'sql', query, '--json'], options)).stdout).rows as unknown[][];
    const children: ChildProcess[] = [];
    const background = async (line: string, ready: RegExp) => {
      const child = spawn('sh', ['-ec', `exec ${line.replace(/ &$/, '')}`], {
        ...options,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      children.push(child);
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          output = `${output}${text}`.slice(-4000);
        });
      await until(async () => {
        if (child.exitCode !== null) throw new Error(`${line} ended: ${output}`);
        return ready.test(output);
      }, line);
    };
    const played = async (day: string) =>
      sql(`select s.role, s.model, s.policy, s.checkpoint_id, count(distinct s.episode_id)::int
           from traj.steps s where starts_with(s.episode_id, '${day}/') group by 1, 2, 3, 4 order by 1, 2, 4`);
    const began = performance.now();
    const at = () => `${Math.round((performance.now() - began) / 1000)} s`;
    try {
      let checkpoint = '';
      for (const line of commands) {
        if (line.startsWith('python3') && line.endsWith('&')) {
          await background(line.replace('upstream.py', `upstream.py --port ${scripted}`), /http:/);
          const ticket = '{"prompt": "my red lamp is late thanks a lot", "answer": "shipping normal"}';
          const direct = `OPENAI_BASE_URL=http://127.0.0.1:${scripted}/v1 python3 examples/python-team/team.py`;
          const alone = await shell(`echo '${ticket}' | ${direct}`);
          check('the team runs at the other server without Troupe', 'reward' in JSON.parse(alone), alone);
        } else if (line.endsWith('&')) {
          await background(line, /Troupe is up/);
        } else if (line.startsWith('cp ')) {
          await shell(line);
          const settings = join(scratch, 'troupe.yaml');
          writeFileSync(settings, readFileSync(settings, 'utf8').replace(SCRIPTED_PORT, scripted));
        } else if (line === BY_HAND) {
          [checkpoint] = await night();
        } else {
          const output = await shell(line.replace(NIGHT, EVERY_MINUTE));
          say(`    ${line.slice(0, 100)}: ${output.trim().split('\n')[0]} (${at()})`);
          if (line.endsWith('--id monday')) await monday();
          if (line.endsWith('--id tuesday')) await tuesday(checkpoint);
          if (line.startsWith('npx troupe sql')) await helped(line, checkpoint);
        }
      }
      await again();
    } finally {
      await Promise.all(children.toReversed().map(ended));
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };

    async function monday() {
      const found = await played('monday');
      const expected = ['checker', 'solver'].map((role) => [
        role,
        'gpt-4o-mini',
        null,
        'upstream:paid/gpt-4o-mini',
        160,
      ]);
      check(
        'on Monday both agents are recorded in 160 episodes, answered by the model of the other server',
        same(found, expected),
        found,
      );
    }

    /** The same file is started again in the middle of an episode of Monday that went wrong. */
    async function again() {
      const [found] = await sql(
        `select e.episode_id, t.ground_truth #>> '{}', (select json_agg(s.step_id order by s.requested_at) from traj.steps s where s.episode_id = e.episode_id)
         from traj.episodes e join traj.tasks t using (task_id)
         where starts_with(e.episode_id, 'monday/') and e.reward = 0 and e.calls = 3 order by 1 limit 1`,
      );
      const [episode, answer, [step, , last]] = found as [string, string, string[]];
      const replay = async (options: string) =>
        JSON.parse(await shell(`npx troupe rollout --runner desk --replay ${episode} ${options} --samples 1 --json`));
      const whole = await replay('--from end --id whole');
      const [stored] = await sql(`select reward, outcome from traj.episodes where episode_id = '${whole.episodes[0]}'`);
      check(
        'its three calls are answered from the record, and it fails in the same way',
        whole.replayed_calls === 3 && whole.tokens === null && same(stored, [0, 'failure']),
        { whole, stored },
      );
      const corrected = await replay(`--from ${step} --answer "${answer}" --id corrected`);
      const steps = await sql(
        `select s.text, e.tags #>> '{intervention,kind}' from traj.steps s join traj.episodes e using (episode_id)
         where episode_id = '${corrected.episodes[0]}' order by s.requested_at limit 1`,
      );
      check('it goes on from a step that was corrected', same(steps, [[answer, 'correct']]), { corrected, steps });
      // The checker's no in the place of the solver's last answer.
      const faulty = await replay(`--from ${last} --fault other-role --id faulty`);
      const labels = await sql(
        `select name, target_kind from traj.feedback where episode_id = '${faulty.episodes[0]}' and kind = 'failure'`,
      );
      check('a fault stands in its step, with its label', same(labels, [['FM-1.2', 'step']]), { faulty, labels });
    }

    /** Waits until the schedule has started a night and what it released is served. */
    async function night(): Promise<[string]> {
      const released = await until(async () => {
        const { items: policies } = JSON.parse(await shell('npx troupe policies --json'));
        return policies.find((one: { policy: string }) => one.policy === 'desk')?.released as string | undefined;
      }, 'no night released a checkpoint');
      await shell('npx troupe schedule remove desk');
      const jobs = await sql(
        `select outcome from traj.jobs where job_id ~ '^schedule/desk/[0-9-]+T[0-9:]+Z$' and outcome is not null order by job_id limit 1`,
      );
      check(
        `the schedule ran the night at its minute, and its gate released ${released} (${at()})`,
        same(jobs, [['done']]),
        jobs,
      );
      const rows = await sql(
        `select count(*) > 50, bool_and(starts_with(episode_id, 'monday/')), bool_and(e.reward = 1), bool_and(t.split = 'train')
         from traj.lineage join traj.episodes e using (episode_id) join traj.tasks t using (task_id)
         where checkpoint_id = '${released}' and relation = 'trained on'`,
      );
      check(
        "it was trained on Monday's right answers, on no ticket of the test",
        same(rows, [[true, true, true, true]]),
        rows,
      );
      await until(
        async () =>
          (await (await fetch(`http://127.0.0.1:${port}/v1/models`)).text()).includes(`"checkpoint:${released}"`),
        'the checkpoint is not served',
      );
      return [released];
    }

    async function tuesday(checkpoint: string) {
      const found = await played('tuesday');
      const expected = ['checker', 'solver'].map((role) => [role, 'gpt-4o-mini', 'desk', checkpoint, 40]);
      check(
        'on Tuesday the same file asks for the same model, and the new checkpoint answers',
        same(found, expected),
        found,
      );
    }

    async function helped(line: string, checkpoint: string) {
      const query = /"(select .*)"/.exec(line)![1]!;
      const found = await sql(query);
      const [weights, tickets, before, after] = (found[0] ?? []) as [string, number, number, number];
      const gained = weights === checkpoint && Number(tickets) === 40 && after - before >= GAIN;
      check(
        `SQL says that it helped: ${before} before and ${after} after, on the same 40 tickets (${at()})`,
        gained,
        found,
      );
    }
  },
};

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGTERM');
  await gone;
}
