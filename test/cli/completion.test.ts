import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Shell, warmShell } from './support/troupe.ts';

describe('troupe completion', () => {
  let at: Shell;
  beforeAll(() => {
    at = warmShell();
  });
  afterAll(() => at.remove());

  it('bash completes commands, and options after arguments', async () => {
    const { out } = await at.run(['completion', 'bash']);
    const script = join(at.folder, 'troupe.bash');
    writeFileSync(script, out);
    const completed = (...words: string[]): string[] => {
      const line = words.map((word) => `'${word}'`).join(' ');
      const program = `source ${script}; COMP_WORDS=(troupe ${line}); COMP_CWORD=${words.length}; _troupe; echo "\${COMPREPLY[@]}"`;
      return execFileSync('bash', ['-c', program], { encoding: 'utf8' }).trim().split(' ');
    };
    expect(completed('sched')).toEqual(['schedule']);
    expect(completed('schedule', 're')).toEqual(['remove', 'resume']);
    expect(completed('schedule', 'pause', 'nightly', '--rea')).toEqual(['--reason']);
    expect(completed('key', 'create', '--name', 'x', '--sc')).toEqual(['--scopes']);
    expect(completed('no-such-command', 'sched')).toEqual(['schedule']);
  });

  it('zsh gets the same, and fish a line with a sentence for each word', async () => {
    expect((await at.run(['completion', 'zsh'])).out).toContain((await at.run(['completion', 'bash'])).out);
    const { out } = await at.run(['completion', 'fish']);
    expect(out).toContain(`"^schedule$"' -a pause -d 'start no jobs until the schedule is resumed`);
    expect(out).toContain(`"^schedule pause( |$)"' -l reason -d 'reason to record'`);
    expect((await at.run(['completion', 'csh'])).code).toBe(2);
  });
});
