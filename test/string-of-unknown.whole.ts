/**
 * `String(x)` and `${x}` call what x has as `toString`, which JSON of others may have as `false`: the program ends there. What may be an
 * object goes through `asText`.
 */
import { join, relative } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');

/** Places whose value is never an object of others, each with what it is. */
const LISTED: Readonly<Record<string, string>> = {
  'ingest/events/json.ts: error': 'what was thrown',
  'ingest/events/json.ts: value': '`asText` itself, and a number',
  'ingest/files/parse-piece.ts: error': 'what was thrown',
  'ingest/recorder/send-queue.ts: this.#url': 'a URL, which writes itself',
  'ingest/recorder/send.ts: url': 'a URL, which writes itself',
  'ingest/events/spelling.ts: value': 'what JSON.parse made of a number',
  'ingest/log/copy-rows.ts: value': 'a value of a column, which a type of ours describes',
  'ingest/log/kafka-record.ts: unread': 'the bytes of a header that the log wrote',
  'api/gateway/request.ts: turn': 'the text of a header',
  'api/http/log.ts: error': 'what was thrown',
  'api/http/offload-thread.ts: request.headers[RELAY]': 'the text of a header',
  "api/http/routes/gateway.ts: reply.getHeader('troupe-call-id')": 'a header that the gateway wrote',
};

const { TypeFlags } = ts;
const PRIMITIVE =
  TypeFlags.StringLike |
  TypeFlags.NumberLike |
  TypeFlags.BooleanLike |
  TypeFlags.BigIntLike |
  TypeFlags.Null |
  TypeFlags.Undefined |
  TypeFlags.Void |
  TypeFlags.Never;

/** The value that a call of `String` or a place in a template turns into text. */
function stringified(node: ts.Node): ts.Expression | undefined {
  if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'String')
    return node.arguments[0];
  return ts.isTemplateSpan(node) && !ts.isTaggedTemplateExpression(node.parent.parent) ? node.expression : undefined;
}

/** File and text of each value whose type says nothing of it, in this program's own folders. */
function unknownTexts(folders: RegExp): string[] {
  const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile).config;
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const files = fileNames.filter((file) => folders.test(relative(ROOT, file)));
  const program = ts.createProgram(files, { ...options, noEmit: true });
  const checker = program.getTypeChecker();
  const isKnown = (type: ts.Type): boolean => {
    if (type.isUnion()) return type.types.every(isKnown);
    if (type.isIntersection()) return type.types.some(isKnown);
    const constraint = checker.getBaseConstraintOfType(type);
    return (type.flags & PRIMITIVE) !== 0 || (!!constraint && constraint !== type && isKnown(constraint));
  };
  return files.flatMap((name) => {
    const found: string[] = [];
    const visit = (node: ts.Node): void => {
      const value = stringified(node);
      if (value && !isKnown(checker.getTypeAtLocation(value)))
        found.push(`${relative(ROOT, name)}: ${value.getText()}`);
      ts.forEachChild(node, visit);
    };
    visit(program.getSourceFile(name)!);
    return found;
  });
}

it('nothing unknown becomes text by a method of its own', { timeout: 600_000 }, () => {
  const found = new Set(unknownTexts(/^(?:ingest|api)\//));
  expect([...found].filter((place) => !(place in LISTED))).toEqual([]);
  expect(Object.keys(LISTED).filter((place) => !found.has(place))).toEqual([]);
});
