/**
 * Proof that a new user goes from their own OpenAI chat logs to a supervised run in TRL by the six commands of docs/start.md, as printed. What
 * is already there is not installed again, and the model is a tiny one on this machine, trained for two steps.
 */
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { TOOLS } from './calculator-team.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { findTrl } from './trl.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const MODEL = 'Qwen/Qwen3-0.6B';
const LOGS = 40;

export const proof: Proof = {
  name: 'chat-logs-train-in-trl',
  needs: ['python'],
  async run({ scratch, say, python }: Setting): Promise<Outcome> {
    const trl = findTrl(process.env, python);
    if ('missing' in trl) return { ok: true, lines: [], skipped: [trl.missing] };
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const page = readFileSync(join(ROOT, 'docs/start.md'), 'utf8');
    const commands = /```\n(npm ci\n[\s\S]*?)```/.exec(page)?.[1]?.trim().split('\n') ?? [];
    const installing = ['npm ci', 'pip install trl'];
    check('docs/start.md shows six commands, from npm ci to trl sft', commands.length === 6, commands);
    check(
      'two of them install what is there already',
      installing.every((one) => commands.includes(one)),
      commands,
    );

    const bin = join(scratch, 'bin');
    mkdirSync(bin);
    const program = (name: string, command: string) => {
      writeFileSync(join(bin, name), `#!/bin/sh\n${command}\n`);
      chmodSync(join(bin, name), 0o755);
    };
    program('npx', `shift\nexec ${process.execPath} ${ROOT}/bin/troupe.js "$@"`);
    program('trl', `exec ${trl.python} -c 'from trl.cli import main; main()' "$@"`);
    writeFileSync(join(scratch, 'chats.jsonl'), chatLogs());
    const { DATABASE_URL: _, ...rest } = process.env;
    const offline = {
      HF_HUB_OFFLINE: '1',
      TRANSFORMERS_OFFLINE: '1',
      HF_HOME: join(scratch, 'hf'),
      OMP_NUM_THREADS: '1',
    };
    const env = { ...rest, ...offline, NO_COLOR: '1', PATH: `${bin}:${process.env.PATH}` };
    const shell = async (command: string) => {
      const { stdout, stderr } = await run('sh', ['-ec', command], { cwd: scratch, env, maxBuffer: 2 ** 26 });
      return `${stdout}${stderr}`;
    };
    await shell('npx troupe model new --dir tiny --text chats.jsonl --vocab 400 --family qwen2 --hidden 64 --heads 2');
    for (const command of commands.filter((one) => !installing.includes(one))) {
      const short = '--max_steps 2 --use_cpu --bf16 False --report_to none --logging_steps 1';
      const asked = command.includes(MODEL) ? `${command.replace(MODEL, './tiny')} ${short}` : command;
      const output = await shell(asked);
      const outputLines = output.trim().split('\n');
      check(
        `${command}: ${outputLines.findLast((line) => /accepted|rows in|train\.parquet|Training completed/.test(line)) ?? outputLines.at(-1)}`,
        true,
      );
    }
    check('the trained model is there', existsSync(join(scratch, 'sft-model', 'model.safetensors')));
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

/** Logs of completions, a call of a tool in every second. */
function chatLogs(): string {
  const logs = Array.from({ length: LOGS }, (_, i) => {
    const request = { model: 'm', messages: [{ role: 'user', content: `What is ${i} + 2?` }], tools: TOOLS };
    const call = {
      id: `call_${i}`,
      type: 'function',
      function: { name: 'calculate', arguments: `{"expression":"${i}+2"}` },
    };
    const message =
      i % 2 === 0
        ? { role: 'assistant', content: `It is ${i + 2}.` }
        : { role: 'assistant', content: null, tool_calls: [call] };
    return { request, response: { id: `r${i}`, choices: [{ index: 0, message, finish_reason: 'stop' }] } };
  });
  return logs.map((log) => `${JSON.stringify(log)}\n`).join('');
}
