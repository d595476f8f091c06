/**
 * Proof that the plans of the example teams run: each team is started as its page says, each plan runs one round of one iteration at a tiny
 * size, and what became of it is read from the views: whose weights changed, and which credit the training read. In the short form only the
 * first plan of a team plays its gate, and of plans that differ only in the method one is run.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseDocument, stringify } from 'yaml';
import { freePort } from '../test/support/free-port.ts';
import { installedTeam, missingTeams } from './clients.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { until } from './up.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');

type Plan = {
  readonly plan: string;
  /** Policies that get new weights, and of the others one whose weights answer before and after. */
  readonly learns: readonly string[];
  readonly stays?: string;
  /** The method whose credit or verdict the training reads, or several of which each policy reads one; without one it takes episodes by their reward. */
  readonly reads?: string | readonly string[];
  /** Roles of the trained rows. */
  readonly roles: readonly string[];
  /** Of a plan that trains nothing: the member that it leaves out of the team. */
  readonly prunes?: string;
  /** The role whose answers after a restart it trains on too: those of the first branch, which were asked without the step before. */
  readonly restarts?: string;
  /** Whether each policy is an adapter over the one base. */
  readonly adapters?: true;
  /** Only in the full form: a plan that is like another one of the team but for the method. */
  readonly full?: true;
};

type Team = {
  readonly team: string;
  /** The model directory that the plans name; none where nothing is trained. */
  readonly model?: string;
  /** A file of the team's folder that the model has learnt from before, a little. */
  readonly lessons?: string;
  /** A policy that learns from nothing but a file of the team's folder, before, and answers a worker of it. */
  readonly teacher?: { readonly policy: string; readonly lessons: string };
  /** Policies that answer the team. */
  readonly served: readonly string[];
  /** Policies with a value head, which a judge of the team is. */
  readonly judges?: readonly string[];
  /** A program of the team's folder that stands in for the models of another server. */
  readonly server?: string;
  /** Whether it learns from its teachers before, with its plan `warm-start`. */
  readonly warm?: true;
  /** The name of a runner whose webhook the team is: a program in Python, with the packages of a team in `proofs/clients/teams`. */
  readonly webhook?: string;
  /** The options of each of its workers; one without options. One that begins with a file is that program of the folder. */
  readonly workers?: readonly (readonly string[])[];
  readonly plans: readonly Plan[];
};

const TEAMS: readonly Team[] = [
  {
    ...{ team: 'two-players', model: 'players-model', served: ['player'] },
    plans: [{ plan: 'mars', learns: ['player'], reads: 'mars_turn_advantage', roles: ['first', 'second'] }],
  },
  {
    ...{ team: 'planner-executor', model: 'search-model', served: ['planner', 'executor'] },
    plans: [
      {
        ...{ plan: 'browsemaster', learns: ['executor'], stays: 'planner' },
        ...{ reads: 'grpo_advantage', roles: ['executor'] },
      },
      {
        ...{ plan: 'grpo-roc', learns: ['executor'], stays: 'planner' },
        ...{ reads: 'roc_select', roles: ['executor'], full: true },
      },
      ...['dr-mas drmas_advantage', 'at-grpo at_grpo_advantage'].map((both): Plan => {
        const [plan, reads] = both.split(' ') as [string, string];
        const learns = ['executor', 'planner'];
        return { plan, reads, learns, roles: learns };
      }),
    ],
  },
  {
    ...{ team: 'planner-executor', model: 'search-model', served: ['planner', 'executor'] },
    plans: [
      {
        ...{ plan: 'marft', learns: ['critic', 'executor', 'planner'] },
        ...{ reads: ['marft_gae', 'marft_returns'], roles: ['executor', 'planner'] },
      },
    ],
  },
  {
    ...{ team: 'planner-executor', model: 'search-model', served: ['both'] },
    workers: [['--planner', 'policy:both', '--executor', 'policy:both']],
    plans: [{ plan: 'matpo', learns: ['both'], reads: 'matpo_advantage', roles: ['executor', 'planner'] }],
  },
  {
    ...{ team: 'ceo-experts', model: 'ceo-model', served: ['ceo'], server: 'experts.ts' },
    plans: [
      { plan: 'mas-tts', learns: ['ceo'], reads: 'grpo_advantage', roles: ['ceo'] },
      { plan: 'mlpo', learns: ['ceo'], reads: 'grpo_advantage', roles: ['ceo'] },
    ],
  },
  {
    ...{ team: 'solvers-critic', model: 'student-model', served: ['student'], server: 'teacher.ts' },
    workers: [['--runner', 'teachers', '--model', 'teacher'], []],
    plans: [
      { plan: 'm1-32b', learns: ['student'], reads: 'm500_filter', roles: ['critic', 'evaluator', 'solver'] },
      { plan: 'swe-dev', learns: ['student'], reads: 'rolewise_sft_select', roles: ['critic', 'evaluator', 'solver'] },
      {
        ...{ plan: 'chain-of-agents', learns: ['student'], full: true },
        ...{ reads: 'difficulty_band', roles: ['critic', 'evaluator', 'solver'] },
      },
    ],
  },
  {
    ...{ team: 'team-writer', model: 'writer-model', served: ['writer', 'member'] },
    plans: [
      {
        ...{ plan: 'metaagent-x', learns: ['member', 'writer'] },
        ...{ reads: 'metaagentx_advantage', roles: ['member', 'writer'] },
      },
      { plan: 'mas-gpt', learns: ['writer'], stays: 'member', roles: ['writer'] },
    ],
  },
  // Before a plan that may release an answerer: a gate plays released weights, where the process begins with a model of its own.
  {
    ...{ team: 'answer-trees', model: 'answerer-model', served: ['answerer'], judges: ['judge'] },
    plans: [
      {
        ...{ plan: 'masprm', learns: ['judge'], stays: 'answerer' },
        ...{ reads: 'masprm_target', roles: ['generator', 'refiner', 'verifier'] },
      },
    ],
  },
  {
    ...{ team: 'answer-trees', model: 'answerer-model', served: ['answerer'] },
    plans: [
      { plan: 'mars2', learns: ['answerer'], reads: 'drmas_advantage', roles: ['generator', 'refiner', 'verifier'] },
      { plan: 'marsrl', learns: ['answerer'], reads: 'drmas_advantage', roles: ['corrector', 'solver', 'verifier'] },
      ...['unitymas-o', 'comam'].map(
        (plan): Plan => ({
          ...{ plan, learns: ['answerer'], reads: 'drmas_advantage', roles: ['corrector', 'solver', 'verifier'] },
          full: true,
        }),
      ),
    ],
  },
  {
    // No generation of a model that knows nothing is worth more than a half.
    ...{ team: 'answer-trees', model: 'malt-model', lessons: 'first-lessons.jsonl' },
    served: ['generator', 'verifier', 'refiner'],
    workers: [['generator', 'verifier', 'refiner'].flatMap((role) => [`--${role}`, `policy:${role}`])],
    plans: [
      {
        ...{ plan: 'malt-sft', learns: ['generator', 'refiner', 'verifier'], adapters: true },
        ...{ reads: 'malt_values', roles: ['generator', 'refiner', 'verifier'] },
      },
      {
        ...{ plan: 'malt-dpo', learns: ['refiner', 'verifier'], stays: 'generator', adapters: true },
        ...{ reads: 'malt_values', roles: ['refiner', 'verifier'] },
      },
    ],
  },
  {
    ...{ team: 'thinkers', model: 'thinkers-model', served: ['thinker', 'reasoner'] },
    plans: [
      {
        ...{ plan: 'rema', learns: ['reasoner', 'thinker'] },
        ...{ reads: 'drmas_advantage', roles: ['meta-thinking', 'reasoning'] },
      },
      {
        ...{ plan: 'magrpo', learns: ['reasoner', 'thinker'] },
        ...{ reads: 'magrpo_returns', roles: ['meta-thinking', 'reasoning'] },
      },
      {
        ...{ plan: 'dr-mamr', learns: ['reasoner', 'thinker'] },
        ...{ reads: ['mamr_step_advantage', 'grpo_advantage'], roles: ['meta-thinking', 'reasoning'] },
        restarts: 'reasoning',
      },
      {
        ...{ plan: 'agentgym-rl', learns: ['reasoner', 'thinker'], full: true },
        ...{ reads: 'grpo_advantage', roles: ['meta-thinking', 'reasoning'] },
      },
    ],
  },
  {
    ...{ team: 'retrieval', model: 'rag-model', served: ['rag'], server: 'writer.ts' },
    teacher: { policy: 'large', lessons: 'lessons.jsonl' },
    workers: [
      ['writers.ts'],
      ['--runner', 'retrieval-teachers', '--model', 'writer'],
      ['--runner', 'retrieval-large', '--model', 'policy:large'],
      [],
    ],
    plans: [
      { plan: 'mrag', learns: ['rag'], reads: 'mrag_select', roles: ['generator', 'rewriter', 'selector'] },
      {
        ...{ plan: 'apigen-mt', learns: ['rag'] },
        ...{ reads: 'apigen_mt_trajectory', roles: ['generator', 'rewriter', 'selector'] },
      },
      {
        ...{ plan: 'star-agents', learns: ['rag'], stays: 'large' },
        ...{ reads: 'star_agents_score', roles: ['generator', 'rewriter', 'selector'] },
      },
      {
        ...{ plan: 'mmoa-rag', learns: ['rag'] },
        ...{ reads: 'drmas_advantage', roles: ['generator', 'rewriter', 'selector'] },
      },
    ],
  },
  {
    ...{
      team: 'simulated-world',
      model: 'agent-model',
      lessons: 'lessons.jsonl',
      served: ['agent'],
      server: 'world.ts',
    },
    plans: [{ plan: 'simia', learns: ['agent'], reads: 'grpo_advantage', roles: ['agent'] }],
  },
  {
    ...{ team: 'peers', served: [], server: 'model.ts' },
    plans: [{ plan: 'dylan', learns: [], reads: 'dylan_importance', roles: ['peer'], prunes: 'bob' }],
  },
  {
    ...{ team: 'coder-verifier', model: 'coder-model', served: ['team'], warm: true },
    plans: [{ plan: 'cure', learns: ['team'], reads: 'cure_advantage', roles: ['coder', 'verifier'] }],
  },
  {
    ...{ team: 'langgraph-team', model: 'drafter-model', served: ['drafter'], webhook: 'langgraph' },
    plans: [
      {
        ...{ plan: 'dr-grpo', learns: ['drafter'], reads: 'grpo_advantage', roles: ['drafter', 'reviewer'] },
        full: true,
      },
    ],
  },
];
const RUNNERS = Object.fromEntries(
  [
    ...['players', 'search', 'experts', 'teachers', 'solvers', 'writers', 'trees', 'thinkers', 'team', 'peers'],
    ...['retrieval', 'retrieval-teachers', 'retrieval-large', 'question-writers', 'simulated'],
  ].map((name) => [name, { workers: true, lease_s: 120, retries: 3 }]),
);
/** Models of the scripted servers. */
const SCRIPTED = ['expert', 'teacher', 'writer', 'peer', 'world'];

export const proof: Proof = {
  name: 'example-teams',
  needs: [],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const lines: string[] = [];
    const missing = short ? null : missingTeams(['langgraph'], process.env);
    if (missing !== null) return { ok: false, lines: [], skipped: [missing] };
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const { DATABASE_URL: _, KAFKA_BROKERS: __, ...env } = process.env;
    const options = { cwd: scratch, env: { ...env, NO_COLOR: '1' }, maxBuffer: 2 ** 26 };
    const program = join(ROOT, 'bin/troupe.js');
    const troupe = async (...args: string[]) => {
      const ended = await run(process.execPath, [program, ...args, '--json'], options).catch(
        (error: { stdout: string; stderr: string }) => error,
      );
      if (ended.stdout === '') throw new Error(ended.stderr);
      return JSON.parse(ended.stdout);
    };
    const sql = async (query: string): Promise<readonly unknown[][]> => {
      const { rows, error } = await troupe('sql', query);
      if (rows === undefined) throw new Error(error.message);
      return rows;
    };
    const children = new Set<ChildProcess>();
    const start = (args: readonly string[], cwd = scratch, command = process.execPath) => {
      const child = spawn(command, args, { ...options, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
      children.add(child);
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          output = `${output}${text}`.slice(-4000);
        });
      const ready = () =>
        until(async () => {
          if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended: ${output}`);
          return /"role"/.test(output);
        }, args.join(' '));
      const died = new Promise<never>((_, reject) => {
        child.once('exit', () => children.has(child) && reject(new Error(`${args.join(' ')} ended: ${output}`)));
      });
      died.catch(() => {});
      return { child, ready, died };
    };
    const stop = async (child: ChildProcess): Promise<void> => {
      children.delete(child);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = new Promise((resolve) => child.once('close', resolve));
      child.kill('SIGTERM');
      await gone;
    };

    cpSync(join(ROOT, 'examples'), join(scratch, 'examples'), { recursive: true });
    const scripted = await freePort();
    const upstreams = { scripted: { base_url: `http://127.0.0.1:${scripted}/v1`, models: SCRIPTED } };
    const hooked = await freePort();
    const langgraph = { webhook: `http://127.0.0.1:${hooked}/play`, private: true, reward: 'answer', concurrency: 8 };
    writeFileSync(
      join(scratch, 'troupe.yaml'),
      stringify({ runners: { ...RUNNERS, langgraph: { ...langgraph, timeout_s: 120 } }, upstreams }),
    );
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    try {
      await start([program, 'run', 'serve', '--port', String(port), '--json']).ready();
      for (const team of TEAMS) {
        const plans = team.plans.filter(({ full }) => full === undefined || !short);
        if (plans.length > 0) await plays({ ...team, plans });
      }
    } finally {
      await Promise.all([...children].map(stop));
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };

    async function plays({
      team,
      model,
      lessons,
      served,
      judges = [],
      teacher,
      server,
      warm,
      webhook,
      workers = [[]],
      plans,
    }: Team): Promise<void> {
      const folder = join('examples', team);
      const base = join(scratch, model ?? 'no-model');
      const config = ['--config', join(folder, 'model.json')];
      const fresh = lessons === undefined ? base : `${base}-fresh`;
      if (model !== undefined) await troupe('model', 'new', '--dir', fresh, ...config).catch(() => null);
      if (lessons !== undefined) {
        const from = ['--model', fresh, '--data', join(folder, lessons)];
        await troupe('train', 'sft', ...from, '--out', base, '--steps', '20', '--lr', '2e-3');
      }
      if (teacher !== undefined) {
        await troupe('model', 'new', '--dir', `${teacher.policy}-fresh`, ...config);
        const from = ['--model', `${teacher.policy}-fresh`, '--data', join(folder, teacher.lessons)];
        await troupe('train', 'sft', ...from, '--out', `${teacher.policy}-model`, '--steps', '150', '--lr', '3e-3');
      }
      if (warm) await warmStart(join(scratch, folder), base);
      for (const judge of judges) await troupe('model', 'new', '--dir', `${judge}-model`, '--value-head', ...config);
      const members = [
        ...(server === undefined ? [] : [['--import', 'tsx', join(folder, server), '--port', String(scripted)]]),
        ...(webhook === undefined ? workers : []).map((more) => [
          ...['--import', 'tsx', join(folder, more[0]?.endsWith('.ts') ? more[0] : 'team.ts')],
          ...['--url', url, ...more.filter((part) => !part.endsWith('.ts'))],
        ]),
      ].map((args) => start(args, ROOT));
      if (webhook !== undefined) {
        const python = join(installedTeam(webhook, process.env), 'bin', 'python');
        members.push(start([join(folder, 'team.py'), '--port', String(hooked)], ROOT, python));
      }
      const models = [
        ...served.map((policy) => [policy, base]),
        ...[...judges, ...(teacher === undefined ? [] : [teacher.policy])].map((policy) => [policy, `${policy}-model`]),
      ];
      const serving = models.map(([policy, of]) =>
        // What learnt before is served as it was released.
        start([program, 'run', 'infer', '--policy', policy!, ...(warm ? [] : ['--model', of!]), '--json']),
      );
      await Promise.all(serving.map(({ ready }) => ready()));
      const died = Promise.race(members.map((member) => member.died));
      for (const [place, plan] of plans.entries()) {
        const file = join(scratch, folder, 'plans', `${plan.plan}.yaml`);
        if (short) writeFileSync(file, tiny(file, { gated: place === 0 }));
        const ran: PlanRun = await Promise.race([troupe('plan', 'run', file), died]);
        await (plan.prunes === undefined ? learns(plan, ran) : prunes(plan, ran));
      }
      await Promise.all([...serving, ...members].map(({ child }) => stop(child)));
    }

    /** The teachers of the coder and the verifier, and the files of tasks that their plans name. What they learn is released. */
    async function warmStart(folder: string, base: string): Promise<void> {
      const write = (program: string, file: string, ...args: readonly string[]) =>
        run(
          process.execPath,
          ['--import', 'tsx', join(ROOT, folder.slice(scratch.length + 1), program), '--out', file, ...args],
          { cwd: ROOT },
        );
      const lessons = join(scratch, 'lessons.jsonl');
      const plans = join(folder, 'plans');
      const heldOut = ['--pool', 'new', '--count', '16', '--programs', '4', '--inputs', '2', '--tests-per-input', '1'];
      await write('teach.ts', lessons, '--coder-tasks', '300', '--verifier-tasks', '900');
      await write('tasks.ts', join(plans, 'reinforcement.jsonl'), '--count', '64', '--verified', '1');
      await write('tasks.ts', join(plans, 'held-out.jsonl'), ...heldOut);
      await troupe('import', lessons);
      const file = join(plans, 'warm-start.yaml');
      const plan = parseDocument(readFileSync(file, 'utf8'));
      plan.setIn(['policies', 'team', 'base'], base);
      plan.set('gate', { kind: 'manual' });
      if (short) plan.setIn(['policies', 'team', 'train', 'steps'], { coder: 100, verifier: 100 });
      writeFileSync(file, plan.toString());
      await troupe('plan', 'run', file);
      await troupe('gate', 'accept', 'warm-start-1');
    }

    async function prunes({ plan, prunes: member, reads }: Plan, { run: id, rounds, error }: PlanRun) {
      check(`${plan}: a round of the plan ran to its gate: ${rounds?.[0]?.reason}`, id !== undefined, error);
      if (id === undefined) return;
      const [judged, removed, left] = (
        await sql(`select (select count(*)::int from traj.scores s join traj.episodes e using (episode_id)
              where s.method = '${reads}' and s.value is not null and e.tags ->> 'rollout' = '${id}/1/rollout') as judged,
            j.result -> 'removed' as removed, j.result -> 'importance' ->> '${member}' as importance from traj.jobs j where j.job_id = '${id}/1/prune'`)
      )[0]!;
      check(`${plan}: ${reads} judged what the team played`, Number(judged) > 0, judged);
      check(`${plan}: the candidate is the team without ${member}`, same(removed, [member]) && left !== null, removed);
      const sides = await sql(
        `select e.tags ->> 'side', count(distinct agent)::int from traj.episodes e join traj.steps s using (episode_id)
         where e.tags ->> 'gate' = '${id}/1/gate' group by 1 order by 1`,
      );
      check(
        `${plan}: its gate played the team with ${member} and without`,
        same(sides, [
          ['candidate', 3],
          ['incumbent', 4],
        ]),
        sides,
      );
    }

    async function learns(
      { plan, learns, stays, reads, roles, restarts, adapters }: Plan,
      { run: id, rounds, error }: PlanRun,
    ) {
      const reason = rounds?.[0]?.reason ?? 'a person decides';
      check(`${plan}: a round of the plan ran to its gate: ${reason}`, id !== undefined, error);
      if (id === undefined) return;
      const [changed, trained, read, answered] = (await sql(facts(id, [reads ?? []].flat(), stays ?? null)))[0]!;
      check(
        `${plan}: the weights of ${learns.join(' and ')} changed, and no others`,
        same(
          changed,
          learns.toSorted().map((policy) => [policy, true]),
        ),
        changed,
      );
      check(`${plan}: it trained on the answers of ${roles.join(' and ')}`, same(trained, roles.toSorted()), trained);
      if (restarts !== undefined) {
        const [rows, again, messages, flags] = (await sql(restarted(id)))[0]!;
        check(
          `${plan}: ${again} of its ${rows} rows are answers of ${restarts} after a restart, without the step before in their prompts`,
          Number(again) > 0 && same([messages, flags], [1, [restarts]]),
          { again, messages, flags },
        );
      }
      if (adapters) {
        const bases = await sql(
          `select distinct config -> 'adapter' ->> 'base' from traj.checkpoints where starts_with(job_id, '${id}/')`,
        );
        check(`${plan}: each is an adapter over one base`, bases.length === 1 && bases[0]![0] !== null, bases);
      }
      if (reads !== undefined)
        check(
          `${plan}: its recipe reads ${[reads].flat().join(' or ')}, which judged all that it trained on`,
          same(read, [true, true]),
          read,
        );
      if (stays !== undefined)
        check(`${plan}: the same weights of ${stays} answered before and after`, answered === 1, answered);
    }
  },
};

/** What `plan run` prints. */
type PlanRun = {
  readonly run?: string;
  readonly rounds?: readonly { readonly reason: string }[];
  readonly error?: unknown;
};

/**
 * One row about a run: its policies and whether their weights changed; the roles of the trained steps; whether the method gave each of them a
 * credit or its episode a score, or kept it or its episode, and whether the recipe names it; how many weights of the policy that stays answered.
 */
const facts = (id: string, methods: readonly string[], stays: string | null): string => `
  with of_run as (select * from traj.checkpoints where starts_with(job_id, '${id}/')),
  learnt as (select distinct l.episode_id, l.step_id from of_run join traj.lineage l using (checkpoint_id) where l.relation = 'trained on')
  select (select jsonb_agg(distinct jsonb_build_array(policy, checkpoint_id <> parent_id)) from of_run) as policies,
    (select jsonb_agg(distinct s.role) from learnt join traj.steps s using (episode_id, step_id)) as roles,
    (select jsonb_agg(distinct exists (select from traj.credits v where v.method = any(string_to_array('${methods.join(',')}', ','))
        and v.episode_id = l.episode_id and v.step_id = l.step_id and v.value is not null)
      or exists (select from traj.verdicts v where v.method = any(string_to_array('${methods.join(',')}', ',')) and v.keep
        and v.episode_id = l.episode_id and coalesce(v.step_id, l.step_id) = l.step_id)
      or exists (select from traj.scores v where v.method = any(string_to_array('${methods.join(',')}', ',')) and v.value is not null
        and v.episode_id = l.episode_id)) from learnt l)
    || (select jsonb_agg(distinct d.manifest ->> 'recipe' ~ '${methods.join('|')}') from of_run r
        join traj.datasets d on r.dataset_ids::jsonb ? d.dataset_id) as judged,
    (select count(distinct checkpoint_id)::int from traj.steps join traj.episodes e using (episode_id)
     where policy = '${stays}' and starts_with(e.tags ->> 'rollout', '${id}/')) as stayed`;

/** Of the rows that a run trained on: all, those of its first branch, the most messages that one of those was asked with, and their roles. */
const restarted = (id: string): string => `
  with learnt as (select distinct l.episode_id, l.step_id from traj.checkpoints c join traj.lineage l using (checkpoint_id)
    where starts_with(c.job_id, '${id}/') and l.relation = 'trained on'),
  again as (select s.role, s.call_id, s.episode_id from learnt join traj.steps s using (episode_id, step_id)
    join traj.episodes e using (episode_id) where e.tags ->> 'rollout' ~ '^${id}/.*/rollout/branch-1$')
  select (select count(*)::int from learnt) as learnt, (select count(*)::int from again) as again,
    (select max(n)::int from (select count(*) as n from again join traj.messages m using (episode_id, call_id) where m.kind = 'input' group by m.episode_id, m.call_id) of) as messages,
    (select jsonb_agg(distinct role) from again) as roles`;

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** One iteration of few tasks and samples, a short training, and a gate of one sample a task, or of none that is played. */
function tiny(file: string, { gated }: { gated: boolean }): string {
  const document = parseDocument(readFileSync(file, 'utf8'));
  const tasks = readFileSync(join(file, '..', String(document.getIn(['rollout', 'tasks']))), 'utf8')
    .trim()
    .split('\n');
  for (const [path, value] of [
    [['rollout', 'samples'], 8],
    [['rollout', 'per_round'], Math.min(16, tasks.length)],
    [['policies', 'student', 'train', 'steps'], 20],
    [['policies', 'answerer', 'train', 'steps'], 20],
    [['policies', 'generator', 'train', 'steps'], 20],
    [['policies', 'verifier', 'train', 'steps'], 20],
    [['policies', 'refiner', 'train', 'steps'], 20],
    [['policies', 'writer', 'train', 'steps'], 20],
    [['policies', 'rag', 'train', 'steps'], 20],
    [['rollout', 'iterations'], 1],
    [['gate', 'samples'], 1],
  ] as const)
    if (path[1] === 'per_round' || (document.hasIn(path) && !(Number(document.getIn(path)) <= value)))
      document.setIn(path, value);
  if (!gated) document.set('gate', { kind: 'manual' });
  return document.toString();
}
