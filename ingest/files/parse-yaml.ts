/** YAML of people: recipes, plans and lists of teams. The parser of the library calls itself for each level and ends the process where the stack ends. */
import { Lexer, parseDocument } from 'yaml';
import { TroupeError } from '../../errors.ts';

/** Brackets in brackets, and `-` or `?` in a row on one line; a filter of 64 levels as lists needs 128. */
const DEEPEST = 200;
/** Columns that a line is indented by. */
const WIDEST = 400;

/** @throws YAMLParseError or YAMLWarning of the library for what is no YAML, and for tags and directives that nothing here knows; TroupeError `usage` for what is nested too deeply */
export function parseYaml(text: string): unknown {
  let [brackets, indicators] = [0, 0];
  let atStart = true;
  for (const token of new Lexer().lex(text)) {
    if (token === '[' || token === '{') brackets++;
    else if (token === ']' || token === '}') brackets--;
    const isBlank = /^[ \t]*$/.test(token);
    if (token === '-' || token === '?') indicators++;
    else if (!isBlank) indicators = 0;
    const isWide = atStart && brackets === 0 && isBlank && token.length > WIDEST;
    if (brackets > DEEPEST || indicators > DEEPEST || isWide) {
      throw new TroupeError('usage', `The text is nested deeper than ${DEEPEST} levels.`, {
        expected: `at most ${DEEPEST} levels, lines indented by at most ${WIDEST} columns`,
        got: 'more',
      });
    }
    atStart = /[\n\r]$/.test(token);
  }
  const document = parseDocument(text);
  const fault = document.errors[0] ?? document.warnings[0];
  if (fault) throw fault;
  return document.toJS();
}
