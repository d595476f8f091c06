/** The catalogue from outside: `troupe method list`, `show` and `run`, each in a process of its own. */
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { METHOD_EXAMPLES } from '../../api/operations/method/examples.ts';
import { METHODS } from '../../store/evaluate/methods/find.ts';
import { LOSS_METHODS } from '../../trainer/model/losses/catalogue.ts';
import { expectClose } from '../store/methods/close.ts';
import { EXAMPLES } from '../store/methods/examples.ts';
import { LOSS_EXAMPLES } from '../store/methods/loss-examples.ts';
import { document, type Ended, warmShell } from './support/troupe.ts';

const at = warmShell();
afterAll(() => at.remove());

type Answer = { readonly output?: unknown; readonly error?: { readonly code: string; readonly message: string } };
const answersOf = ({ out }: Ended): Answer[] =>
  out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
const ask = (input: string) => at.run(['method', 'run-lines'], input);

describe('troupe method run-lines', () => {
  it('answers every worked example with what its source gives, to 1e-6, in order and in one process', async () => {
    const asked = [...EXAMPLES, ...LOSS_EXAMPLES];
    const ended = await ask(asked.map(({ method, input }) => `${JSON.stringify({ method, input })}\n`).join(''));
    expect([ended.code, ended.err]).toEqual([0, '']);
    const answers = answersOf(ended);
    expect(answers.length).toBe(asked.length);
    for (const [i, { method, expected }] of asked.entries()) {
      expect(Object.keys(answers[i]!), method).toEqual(['output']);
      expectClose(answers[i]!.output, expected, 1e-6, method);
    }
  });

  it('answers the example of every method', async () => {
    const lines = Object.entries(METHOD_EXAMPLES).map(([method, input]) => `{"method":"${method}","input":${input}}`);
    const ended = await ask(lines.join('\n'));
    expect(ended.code).toBe(0);
    expect(answersOf(ended).every((answer) => 'output' in answer)).toBe(true);
  });

  const good = '{"method":"normalise_answer","input":{"text":" 7 "}}';
  const grpo = (input: string) => `{"method":"grpo_advantage","input":${input}}`;
  const REFUSED: readonly (readonly [what: string, line: string | Uint8Array, code: string, why: RegExp])[] = [
    ['is not JSON', '{"method":', 'bad_json', /not JSON/],
    ['is a list', '[]', 'bad_shape', /\{"method":…,"input":…\}, but it is \[\]/],
    ['is a number', '7', 'bad_shape', /but it is 7/],
    ['names no method', '{"input":{}}', 'bad_shape', /name of a method, but it is nothing/],
    ['has null for a method', '{"method":null,"input":{}}', 'bad_shape', /it is null/],
    [
      'names a method that is nearly one',
      '{"method":"grpo_advantge","input":{}}',
      'method_unknown',
      /Did you mean grpo_advantage\?/,
    ],
    ['names a method that is none', '{"method":"horoscope","input":{}}', 'method_unknown', /troupe method list/],
    ['has parameters beside the input', '{"method":"uct","input":{},"params":{}}', 'bad_shape', /"params".*into input/],
    ['has no input', '{"method":"uct"}', 'method_input', /input should be an object with q/],
    ['has null for input', '{"method":"uct","input":null}', 'method_input', /but it is null/],
    ['has an unknown parameter', grpo('{"group":["q"],"reward":[1],"scale_sd":false}'), 'method_input', /scale_std/],
    [
      'has a parameter of another type',
      grpo('{"group":["q"],"reward":[1],"eps":"small"}'),
      'method_input',
      /eps should be/,
    ],
    ['lacks a field', grpo('{"group":["q"]}'), 'method_input', /reward/],
    [
      'has columns of different lengths',
      grpo('{"group":["q","q"],"reward":[1]}'),
      'method_input',
      /reward should be 2 entries/,
    ],
    ['has NaN', grpo('{"group":["q"],"reward":[NaN]}'), 'bad_json', /NaN is not JSON; write null/],
    ['has infinity', grpo('{"group":["q"],"reward":[ -Infinity ]}'), 'bad_json', /-Infinity is not JSON; write null/],
    ['has a number beyond the doubles', grpo('{"group":["q"],"reward":[1e999]}'), 'bad_number', /64-bit float.*1e999/],
    ['has an id that a double cuts', grpo('{"group":[12345678901234567891],"reward":[1]}'), 'bad_number', /as text/],
    ['has null where a number must be', '{"method":"cure_balance","input":{"x":[1,null]}}', 'method_input', /x\[1\]/],
    [
      'has text where a number must be',
      '{"method":"cure_balance","input":{"x":["1"]}}',
      'method_input',
      /x\[0\] should be number, but it is "1"/,
    ],
    [
      'overflows while it is computed',
      grpo('{"group":[1,1,1],"reward":[1.7e308,1.7e308,-1.7e308]}'),
      'method_input',
      /too large/,
    ],
    ['is nested without an end', `${'['.repeat(100_000)}`, 'too_deep', /128 levels/],
    ['is not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'bad_json', /not UTF-8/],
  ];

  /** A good line before each bad one and a good one at the end, in one process. */
  const answered = (async () => {
    const running = at.start(['method', 'run-lines']);
    for (const [, line] of REFUSED) {
      running.child.stdin.write(`${good}\n`);
      running.child.stdin.write(line);
      running.child.stdin.write('\n');
    }
    running.child.stdin.end(`${good}\n`);
    return running.ended;
  })();

  it.each(REFUSED.map((one, i) => [one[0], i] as const))('a line that %s is refused with the reason', async (_, i) => {
    const refused = answersOf(await answered)[2 * i + 1]!;
    const [, , code, why] = REFUSED[i]!;
    expect([Object.keys(refused), Object.keys(refused.error ?? {})]).toEqual([['error'], ['code', 'message']]);
    expect(refused.error!.code).toBe(code);
    expect(refused.error!.message).toMatch(why);
  });

  it('the lines around them are answered, the exit code is 3 and says how many', async () => {
    const ended = await answered;
    const others = answersOf(ended).filter((_, i) => i % 2 === 0);
    expect(others).toEqual(new Array(REFUSED.length + 1).fill({ output: '7' }));
    const lines = 2 * REFUSED.length + 1;
    expect([ended.code, ended.err]).toEqual([3, `${REFUSED.length} of ${lines} lines refused, the first is line 2.\n`]);
  });

  it('takes a byte order mark, CRLF, empty lines and a last line without its end; null stays null', async () => {
    const none = '{"method":"boxed_answer","input":{"text":"no box"}}';
    const ended = await ask(`\uFEFF${good}\r\n\r\n   \n\n${none}\r\n${good}`);
    expect(ended.out).toBe('{"output":"7"}\n{"output":null}\n{"output":"7"}\n');
    expect(ended.code).toBe(0);
  });

  it('nothing asked is nothing answered', async () => {
    expect(await ask('')).toMatchObject({ code: 0, out: '', err: '' });
  });

  it('keeps -0, the smallest numbers, escapes and names that objects already have', async () => {
    const undivided = (rewards: string) =>
      `{"method":"magrpo_returns","input":{"mode":"raw","tree":{"rewards":${rewards}}}}\n`;
    const select =
      '{"method":"rolewise_sft_select","input":{"trajectories":[{"success":true,"steps":[{"role":"__proto__","id":"\\ud800"},{"role":"constructor","id":"\\u0000é"}]}]}}';
    const ended = await ask(`${undivided('[-0.0, 1e-320, 5e-324, 1.7976931348623157e308]')}${select}\n`);
    const [numbers, names] = ended.out.split('\n');
    expect(numbers).toContain('"returns":[-0,1e-320,5e-324,1.7976931348623157e+308]');
    expect(names).toBe('{"output":{"__proto__":["\\ud800"],"constructor":["\\u0000é"]}}');
    expect(ended.code).toBe(0);
  });

  it('ends with 3 where a line is refused, with --json too', async () => {
    for (const more of [[], ['--json']])
      expect(await at.run(['method', 'run-lines', ...more], `${good}\n7\n`)).toMatchObject({ code: 3 });
  });

  it('reads a file', async () => {
    writeFileSync(join(at.folder, 'asked.ndjson'), `${good}\n${good}\n`);
    const ended = await at.run(['method', 'run-lines', 'asked.ndjson']);
    expect(ended).toMatchObject({ code: 0, out: '{"output":"7"}\n{"output":"7"}\n' });
  });

  it.each([
    ['there is no such file', ['run-lines', 'none.ndjson'], 1, /none\.ndjson cannot be read: there is no such file/],
    ['no method is named', ['run'], 2, /missing required argument 'method'/],
  ] as const)('says so where %s', async (_, words, code, why) => {
    const ended = await at.run(['method', ...words]);
    expect([ended.code, ended.out]).toEqual([code, '']);
    expect(ended.err).toMatch(why);
  });

  it('a line of 100 MB is refused by the limit, in less memory than the line, and the next one answered', async () => {
    const running = at.start(['method', 'run-lines']);
    const { stdin, pid } = running.child;
    /** Megabytes, as the kernel counts them; without such a file, memory is not checked. */
    const memory = (what: 'VmRSS' | 'VmHWM'): number => {
      const file = `/proc/${pid}/status`;
      if (!existsSync(file)) return 0;
      return Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(readFileSync(file, 'utf8'))![1]) / 1024;
    };
    stdin.write(`${good}\n`);
    await running.waitForOutput(/output/);
    const before = memory('VmRSS');
    const block = Buffer.alloc(1024 * 1024, 'x');
    for (let i = 0; i < 100; i++) if (!stdin.write(block)) await once(stdin, 'drain');
    const most = memory('VmHWM');
    stdin.end(`\n${good}\n`);
    const ended = await running.ended;
    const [, refused, answered] = answersOf(ended);
    expect(refused!.error).toEqual({
      code: 'too_large',
      message: `The line has ${100 * 1024 * 1024} bytes; at most ${32 * 1024 * 1024} are taken.`,
    });
    expect(answered).toEqual({ output: '7' });
    expect(ended.code).toBe(3);
    expect(most - before).toBeLessThan(100);
  });

  it('does not read on while nobody takes the answers, and loses none', async () => {
    const running = at.start(['method', 'run-lines']);
    const { stdin, stdout } = running.child;
    stdout.pause();
    const line = `{"method":"normalise_answer","input":{"text":"${'x'.repeat(256 * 1024)}"}}\n`;
    let taken = 0;
    for (let i = 0; i < 120; i++)
      stdin.write(line, () => {
        taken++;
      });
    stdin.end();
    // Until as many are taken as ever will be while the answers wait.
    for (let before = -1; before !== taken || taken === 0; ) {
      before = taken;
      await new Promise((resolve) => setTimeout(resolve, 1500));
    }
    expect(taken).toBeLessThan(60);
    stdout.resume();
    const ended = await running.ended;
    expect(answersOf(ended).length).toBe(120);
    expect(ended.code).toBe(0);
  }, 60_000);
});

describe('troupe method run NAME', () => {
  it('takes one JSON document, with a byte order mark or without', async () => {
    const ended = await at.run(
      ['method', 'run', 'grpo_advantage'],
      '\uFEFF{"group":["q","q"],"reward":[1,0],"scale_std":false}',
    );
    expect(ended).toMatchObject({ code: 0, out: '[0.5,-0.5]\n' });
  });

  it('says what is wrong with it', async () => {
    const nan = await at.run(['method', 'run', 'grpo_advantage'], '{"group":["q"],"reward":[NaN]}');
    expect([nan.code, nan.err]).toEqual([1, expect.stringContaining('NaN is not JSON')]);
    const unknown = await at.run(['method', 'run', 'grpo', '--json'], '{}');
    expect([unknown.code, document(unknown).error.code]).toEqual([2, 'method_unknown']);
  });
});

describe('troupe method list and show', () => {
  it('lists every method with its kind, a sentence and the teams it is for, the losses too, or those of one kind', async () => {
    const { items: methods } = document(await at.run(['method', 'list', '--json'])) as {
      items: { name: string; kind: string; teams: string; reads: string[] | null; source: string }[];
    };
    expect(methods.map(({ name }) => name).toSorted()).toEqual(
      [...METHODS, ...LOSS_METHODS].map(({ name }) => name).toSorted(),
    );
    expect(methods.filter(({ kind }) => kind === 'loss').map(({ name }) => name)).toEqual(
      LOSS_EXAMPLES.map(({ method }) => method).toSorted(),
    );
    const readBy = (name: string) => methods.find((method) => method.name === name)?.reads;
    expect(readBy('grpo_advantage')).toEqual(['episodes', 'steps', 'rewards']);
    expect(readBy('masked_whiten')).toBeNull();
    for (const { source } of methods) expect(source.length).toBeGreaterThan(2);
    const teamsOf = (name: string) => methods.find((method) => method.name === name)?.teams;
    expect(['grpo_advantage', 'drmas_advantage', 'uct', 'cure_test_reward'].map(teamsOf)).toEqual([
      'any',
      'several agents',
      'tree search',
      'coder and tester; test execution',
    ]);
    const processes = await at.run(['method', 'list', '--kind', 'process']);
    expect(processes.out).toMatch(/^method +kind +for +result\n/);
    expect(processes.out).toMatch(/\nuct +process +tree search +\S.*\.\n/);
    expect(processes.out).not.toContain('…');
    const losses = await at.run(['method', 'list', '--kind', 'loss']);
    expect(losses.out.trim().split('\n').length).toBe(1 + LOSS_EXAMPLES.length);
    const wrong = await at.run(['method', 'list', '--kind', 'lossy']);
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('loss')]);
  });

  it('shows parameters with defaults and limits, the fields of the input, and an example that can be pasted', async () => {
    const { out } = await at.run(['method', 'show', 'sirius_library']);
    expect(out).toMatch(/^sirius_library \(filter, version 1\)\n/);
    expect(out).toContain('Source: SiriuS');
    expect(out).toMatch(/parameter +default +takes\nepsilon +0 +number\n/);
    expect(out).toMatch(/trajectories\[\]\.reward +number or null\n/);
    expect(out).toMatch(/trajectories\[\]\.regenerated +object +may be left out\n/);
    const gae = (await at.run(['method', 'show', 'gae'])).out;
    expect(gae).toMatch(/gamma +1 +number from 0 to 1\n/);
    expect(gae).toMatch(/mask +list of \(0 or 1\)\n/);
    const balance = (await at.run(['method', 'show', 'cure_balance'])).out;
    expect(balance).toMatch(/reads +null +in a judging: name of a reward method/);
    expect(balance).toContain('Judge reads: episodes, steps, rewards\n');
    const coder = (await at.run(['method', 'show', 'cure_code_reward'])).out;
    expect(coder).toContain('For: coder and tester; test execution\n');
    expect(coder).toContain('Judge runs it over: each execution report\n');
    const none = (await at.run(['method', 'show', 'agreement_score'])).out;
    expect(none).toContain('Parameters\nnone\n');
  });

  it.each(['boxed_answer', 'dpo_loss'])(
    'the example of %s, pasted into a shell, gives the answer shown under it',
    async (name) => {
      const { out } = await at.run(['method', 'show', name]);
      const [command, answer] = out.trimEnd().split('\n').slice(-2) as [string, string];
      expect(command).toMatch(new RegExp(`^printf %s '.*' \\| troupe method run ${name}$`));
      // As a POSIX shell reads it: what stands between single quotes is as it is.
      const input = /^printf %s '(.*)' \|/.exec(command)![1]!.replaceAll(`'\\''`, "'");
      const ended = await at.run(['method', 'run', name], input);
      expect(ended.out).toBe(`${answer}\n`);
    },
  );

  it('an unknown name is answered with the nearest', async () => {
    const ended = await at.run(['method', 'show', 'boxed_anwser']);
    expect([ended.code, ended.err]).toEqual([2, expect.stringContaining('Did you mean boxed_answer?')]);
  });
});
