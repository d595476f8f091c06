/** docker/Dockerfile as its instructions, stage by stage. */

export type Instruction = { readonly name: string; readonly rest: string };
export type Stage = {
  readonly image: string;
  readonly name: string | null;
  readonly instructions: readonly Instruction[];
};

export function readDockerfile(text: string): readonly Stage[] {
  const lines = text
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n');
  const stages: { image: string; name: string | null; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name, rest] = /^([A-Z]+)\s+(.*)$/.exec(line.trim()) ?? [];
    if (name === undefined || rest === undefined) throw new Error(`This is no instruction: ${line}`);
    if (name === 'FROM') {
      const [image, , stage] = rest.split(/\s+/);
      stages.push({ image: image as string, name: stage ?? null, instructions: [] });
    } else stages.at(-1)?.instructions.push({ name, rest });
  }
  return stages;
}

/** What is written after the last instruction of that name; null where there is none. */
export const lastOf = ({ instructions }: Stage, name: string): string | null =>
  instructions.findLast((one) => one.name === name)?.rest ?? null;

/** The words of an instruction in the form of a JSON list. @throws Error for one that a shell would read */
export function wordsOf(stage: Stage, name: string): readonly string[] {
  const rest = lastOf(stage, name);
  const words = rest?.startsWith('[') ? (JSON.parse(rest) as unknown) : null;
  if (Array.isArray(words)) return words.map(String);
  throw new Error(`${name} should be a JSON list of words, so that signals reach the program; it is ${rest}.`);
}

/** What ENV sets. */
export const environmentOf = ({ instructions }: Stage): Readonly<Record<string, string>> =>
  Object.fromEntries(
    instructions
      .filter(({ name }) => name === 'ENV')
      .flatMap(({ rest }) => rest.split(/\s+/))
      .map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );

/** What is copied from the checkout, not from another stage. */
export const copiedFrom = ({ instructions }: Stage): readonly string[] =>
  instructions
    .filter(({ name, rest }) => name === 'COPY' && !rest.startsWith('--from='))
    .flatMap(({ rest }) => rest.split(/\s+/).slice(0, -1));
