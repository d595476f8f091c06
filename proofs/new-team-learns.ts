/**
 * Proof that a team of a kind that no example has learns by reinforcement with nothing set but the method and its rewards: a router, a worker
 * and a checker over one set of weights, right in about 0.4 of the tasks to begin with, end above 0.65 on tasks that none of them trained on,
 * and no role is worse. The short form plays 10 iterations of one seed, the full form 20 of two.
 */
import { execFile, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import type { GateReport } from '../trainer/loop/comparison/report.ts';
import type { Proof } from './proof.ts';
import { lessonsOf, tasksOf, WORDS } from './three-roles-tasks.ts';
import { startUp } from './up.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const HELD_OUT = 128;
/** Share of the teachers' answers that is drawn at random, and steps on them: what the team begins with is right in about 0.4. */
const WARM = { wrong: 0.18, steps: 260 };
const [LEAST, START] = [0.65, [0.3, 0.5]] as const;
const SETTINGS = {
  TROUPE_RUNNERS: JSON.stringify({ three: { workers: true, lease_s: 120, timeout_s: 600, retries: 3 } }),
};
const SIZE = {
  hidden_size: 96,
  intermediate_size: 192,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  max_position_embeddings: 32,
};

export const proof: Proof = {
  name: 'new-team-learns',
  needs: [],
  run: async ({ short, scratch, say }) => {
    const lines: string[] = [];
    for (const seed of short ? [1] : [1, 2]) lines.push(...(await learns(seed, short ? 10 : 20)));
    return { ok: lines.every((line) => line.startsWith('ok')), lines };

    async function learns(seed: number, iterations: number): Promise<string[]> {
      const home = join(scratch, `home-${seed}`);
      const at = (name: string) => join(scratch, `${name}-${seed}`);
      const troupe = async (...args: string[]) => {
        const program = ['--import', 'tsx', join(ROOT, 'cli.ts'), ...args, '--home', home, '--json'];
        const { DATABASE_URL: _, KAFKA_BROKERS: __, ...others } = process.env;
        const env = { ...others, ...SETTINGS };
        return JSON.parse((await run(process.execPath, program, { cwd: ROOT, env, maxBuffer: 2 ** 28 })).stdout);
      };
      const write = (name: string, rows: readonly object[]) =>
        writeFileSync(at(name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
      const { train, held } = tasksOf(seed, HELD_OUT);
      write('lessons.jsonl', lessonsOf(train, seed, WARM.wrong));
      write('tasks.jsonl', train);
      write('held.jsonl', held);
      writeFileSync(at('model.json'), JSON.stringify({ words: WORDS, ...SIZE }));
      await troupe('model', 'new', '--dir', at('fresh'), '--config', at('model.json'), '--seed', String(seed));
      const lessons = ['--model', at('fresh'), '--data', at('lessons.jsonl'), '--out', at('base')];
      const course = ['--steps', String(WARM.steps), '--batch', '64', '--lr', '2e-3', '--seed', String(seed)];
      await troupe('train', 'sft', ...lessons, ...course);
      const plan = {
        name: 'learns',
        seed,
        rollout: { runner: 'three', tasks: at('tasks.jsonl'), samples: 8, per_round: 64, iterations },
        judge: [{ method: 'drmas_advantage' }],
        policies: {
          team: { base: at('base'), recipe: { unit: 'step', credit: 'drmas_advantage' }, train: { method: 'rl' } },
        },
        gate: { kind: 'play', runner: 'three', tasks: at('held.jsonl'), samples: 2, guardrails: { roles: 0.05 } },
      };
      writeFileSync(at('plan.yaml'), stringify(plan));
      const up = startUp(home, SETTINGS);
      try {
        const program = ['--import', 'tsx', join(ROOT, 'proofs', 'three-roles.ts'), '--url', await up.url()];
        const team = spawn(process.execPath, program, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
        try {
          const began = performance.now();
          await troupe('plan', 'run', at('plan.yaml')).catch(onlyRefused);
          const { result } = (
            await troupe('sql', `select result from traj.jobs where job_id = 'learns-1/1/gate'`)
          ).rows.map(([found]: [GateReport]) => ({ result: found }))[0] as { result: GateReport };
          say(`seed ${seed}: ${iterations} iterations in ${Math.round((performance.now() - began) / 1000)} s`);
          const found = judged(seed, result);
          for (const line of found) say(line);
          return found;
        } finally {
          // It may wait for a server that is gone, and nothing of it is looked at any more.
          team.kill('SIGKILL');
        }
      } finally {
        await up.end();
      }
    }
  },
};

/** A gate that does not pass ends the command with 7, which the report says better. */
function onlyRefused(error: { readonly code?: unknown }): void {
  if (error.code !== 7) throw error;
}

function judged(seed: number, { main, guardrails }: GateReport): string[] {
  const line = (holds: boolean, what: string) => `${holds ? 'ok      ' : 'NOT OK  '}seed ${seed}: ${what}`;
  const short = (value: number | null) => (value === null ? 'unknown' : value.toFixed(3));
  const { incumbent, candidate } = main;
  const roles = guardrails.filter(({ of }) => of.startsWith('role '));
  return [
    line(
      incumbent !== null && incumbent >= START[0] && incumbent <= START[1],
      `the team begins right in ${short(incumbent)} of the held-out tasks`,
    ),
    line(
      candidate !== null && candidate > LEAST,
      `it ends right in ${short(candidate)}, where more than ${LEAST} is asked for`,
    ),
    line(roles.length === 3, `each role has rewards of its own: ${roles.map(({ of }) => of).join(', ')}`),
    ...roles.map(({ of, incumbent: before, candidate: after }) =>
      line(before !== null && after !== null && after >= before, `${of} went from ${short(before)} to ${short(after)}`),
    ),
  ];
}
