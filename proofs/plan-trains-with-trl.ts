/**
 * Proof that a plan trains with TRL: a made-up team's work is imported, `troupe plan run` freezes it, hands it to a program that runs TRL's
 * SFTTrainer on a tiny model, verifies and registers what came out, compares it with the base on held-out tasks, and releases it.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { calculatorTeam } from './calculator-team.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { findTrl } from './trl.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const TASKS = 24;
const STEPS = 40;

export const proof: Proof = {
  name: 'plan-trains-with-trl',
  needs: ['python'],
  async run({ scratch, say, python }: Setting): Promise<Outcome> {
    const trl = findTrl(process.env, python);
    if ('missing' in trl) return { ok: true, lines: [], skipped: [trl.missing] };
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const home = join(scratch, 'home');
    mkdirSync(scratch, { recursive: true });
    const { DATABASE_URL: _, ...env } = process.env;
    const troupe = async (...args: string[]) => {
      const ended = await run(process.execPath, [join(ROOT, 'bin/troupe.js'), ...args, '--home', home, '--json'], {
        cwd: scratch,
        env: { ...env, OMP_NUM_THREADS: '1' },
        maxBuffer: 2 ** 26,
      }).catch((error: { stdout: string; stderr: string }) => error);
      if (ended.stderr !== '') say(ended.stderr.trim());
      return JSON.parse(ended.stdout);
    };
    writeFileSync(join(scratch, 'events.jsonl'), calculatorTeam(TASKS));
    writeFileSync(join(scratch, 'words.txt'), calculatorTeam(TASKS));
    const program = join(import.meta.dirname, 'train_with_trl.py');
    writeFileSync(
      join(scratch, 'troupe.yaml'),
      stringify({ engines: { trl: { command: [trl.python, program], timeout_s: 600, env: ['OMP_NUM_THREADS'] } } }),
    );
    const plan = {
      name: 'with-trl',
      policies: {
        team: {
          base: 'model',
          recipe: { split: { held_out: 0.3, seed: 1 } },
          train: {
            engine: 'command',
            use: 'trl',
            layout: 'trl-sft',
            params: { max_steps: STEPS, per_device_train_batch_size: 4, learning_rate: 5e-3 },
          },
        },
      },
      gate: { kind: 'offline' },
    };
    writeFileSync(join(scratch, 'plan.yaml'), stringify(plan));
    await troupe('import', 'events.jsonl');
    const sizes = ['--vocab', '400', '--family', 'qwen2', '--hidden', '64', '--heads', '2', '--context', '1024'];
    await troupe('model', 'new', '--dir', join(scratch, 'model'), '--text', 'words.txt', ...sizes);
    const result = await troupe('plan', 'run', 'plan.yaml');
    check('a plan whose engine is TRL runs to a release', result.released === true, result);
    if (result.released !== true) return { ok: false, lines };
    const id: string = result.rounds[0].candidates.team;
    const { stages } = await troupe('plan', 'show', result.run);
    const { job_id } = stages.find((stage: { kind: string }) => stage.kind === 'program');
    const { result: trained } = await troupe('jobs', 'show', job_id);
    const log = readFileSync(trained.log, 'utf8');
    check('the program was TRL', /trained \d+ rows with TRL \d/.test(log), log.slice(-300));
    const { rows } = await troupe(
      'sql',
      "select count(*)::integer as n, max(step)::integer as last from traj.job_metrics where name = 'loss'",
    );
    check(`its losses stand in traj.job_metrics, the last at step ${STEPS}`, rows[0]?.[1] === STEPS, rows);
    const sound = await troupe('checkpoints', 'verify', trained.directory);
    check('its checkpoint is verified and whole', sound.sound === true && existsSync(trained.directory), sound);
    const { items: checkpoints } = await troupe('checkpoints');
    const [saved] = checkpoints.filter((one: { checkpoint_id: string }) => one.checkpoint_id === id);
    check('it is registered as one of the policy, with its parent', saved?.policy === 'team' && saved.parent_id, saved);
    const gate = await troupe('gate', 'show', result.run);
    check('on held-out tasks it is better than the model it began with', gate.outcome === 'better', gate.main);
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};
