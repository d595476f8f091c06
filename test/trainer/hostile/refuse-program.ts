/**
 * Opens hostile files one after another and says what became of each, how much of the processor it took and how far memory rose meanwhile.
 * Its argument is a JSON file with a list of { name, path, as }. A program of its own, so that memory is that of the
 * reader alone.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { checkOnnxFile } from '../../../trainer/model/files/onnx-file.ts';
import { readSafetensorsFile } from '../../../trainer/model/files/safetensors-file.ts';

export type Asked = { readonly name: string; readonly path: string; readonly as: 'safetensors' | 'onnx' };
export type Answer = {
  readonly name: string;
  readonly outcome: string;
  readonly message: string;
  readonly ms: number;
  readonly mib: number;
};

const open: Readonly<Record<Asked['as'], (path: string) => unknown>> = {
  safetensors: readSafetensorsFile,
  onnx: checkOnnxFile,
};

const memory = (field: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? 0) / 1024;

async function answer({ name, path, as }: Asked): Promise<Answer> {
  globalThis.gc?.();
  // Lets the highest memory so far begin again at what is held now.
  writeFileSync('/proc/self/clear_refs', '5');
  const before = memory('VmRSS');
  const began = process.cpuUsage();
  const [outcome, message] = await Promise.resolve()
    .then(() => open[as](path))
    .then(
      () => ['read', ''],
      (error) => [error.code ?? error.name, error.message],
    );
  const used = process.cpuUsage(began);
  return {
    name,
    outcome: outcome!,
    message: message!,
    ms: (used.user + used.system) / 1000,
    mib: memory('VmHWM') - before,
  };
}

const asked = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as Asked[];
// Once before, so that what the first of a kind loads and compiles is not counted as the file's.
for (const one of asked.filter(({ name }) => name.startsWith('sound'))) await answer(one);
const answers: Answer[] = [];
for (const one of asked) answers.push(await answer(one));
process.stdout.write(JSON.stringify(answers));
