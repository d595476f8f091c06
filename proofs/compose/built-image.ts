/** Our image as folders of this machine: the Dockerfile's own steps, each stage in a folder that stands for its file system. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Stage } from './dockerfile.ts';

const STEP_MS = 600_000;

/** The folder of the last stage. COPY and RUN are done as they are written; paths of the stage become paths below its folder. */
export function buildImage(stages: readonly Stage[], checkout: string, folder: string): string {
  const rootOf = (stage: Stage): string => join(folder, stage.name ?? 'image');
  for (const stage of stages) {
    const root = rootOf(stage);
    let at = '/';
    mkdirSync(root, { recursive: true });
    for (const { name, rest } of stage.instructions) {
      if (name === 'WORKDIR') at = rest;
      mkdirSync(join(root, at), { recursive: true });
      if (name === 'COPY') {
        const [, from, words] = /^(?:--from=(\S+) )?(.*)$/.exec(rest)!;
        const source = from === undefined ? checkout : rootOf(stages.find((one) => one.name === from)!);
        const paths = words!.split(/\s+/);
        copy(
          paths.slice(0, -1).map((path) => join(source, path)),
          join(root, at, paths.at(-1)!),
        );
      }
      if (name === 'RUN') run(rest.replace(/(?<![\w.}/])\/(?=(app|data)\b)/g, `${root}/`), join(root, at));
    }
  }
  return rootOf(stages.at(-1)!);
}

/** As the builder does it: of a folder its content, of a file the file, into what ends with a slash. */
function copy(sources: readonly string[], target: string): void {
  const into = target.endsWith('/') || sources.length > 1;
  for (const source of sources)
    cpSync(source, into && !statSync(source).isDirectory() ? join(target, source.split('/').at(-1)!) : target, {
      recursive: true,
      verbatimSymlinks: true,
    });
}

function run(line: string, cwd: string): void {
  const { PATH = '', HOME = '' } = process.env;
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', line], {
    cwd,
    env: { PATH, HOME },
    encoding: 'utf8',
    timeout: STEP_MS,
  });
  if (status !== 0) throw new Error(`RUN ${line} ended with ${status}: ${`${stdout}${stderr}`.slice(-2000)}`);
}
